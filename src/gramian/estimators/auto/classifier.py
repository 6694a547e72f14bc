"""AutoKernelClassifier: from a table and a class to predict to a tuned, calibrated kernel machine."""

from __future__ import annotations

from sklearn.base import ClassifierMixin

from gramian.estimators.auto.base import AutoKernel

__all__ = ["AutoKernelClassifier"]


class AutoKernelClassifier(ClassifierMixin, AutoKernel):
    """Classification by the kernel machine that a search finds best."""
