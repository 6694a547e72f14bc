"""From a table to a tuned kernel machine: columns read by kind, a search by cross-validation, a leaderboard."""

from gramian.estimators.auto.classifier import AutoKernelClassifier
from gramian.estimators.auto.leaderboard import Leaderboard, Trial
from gramian.estimators.auto.regressor import AutoKernelRegressor

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor", "Leaderboard", "Trial"]
