"""Searches over parameters that share the work on the kernel."""

from gramian.model_selection.search import KernelSearchCV

__all__ = ["KernelSearchCV"]
