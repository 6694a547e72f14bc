"""AutoKernelRegressor: from a table and a number to predict to a tuned kernel machine."""

from __future__ import annotations

from sklearn.base import RegressorMixin

from gramian.estimators.auto.base import AutoKernel

__all__ = ["AutoKernelRegressor"]


class AutoKernelRegressor(RegressorMixin, AutoKernel):
    """Regression by the kernel machine that a search finds best."""
