"""Parameters of parameters: scikit-learn's ``kernel__lengthscale=2.0``, where there is nobody to take it."""

from __future__ import annotations

from typing import Any, Self

from gramian.kernels import Kernel

__all__ = ["Nested"]


class Nested:
    """A mixin for estimators whose parameters are often names, values or ``None``, which have no parameters to set."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            As in the constructor; ``approximation__n_components`` is ``n_components`` of the object that was passed as
            ``approximation``.

        Returns
        -------
        estimator
            The estimator itself.
        """
        given = {**self.get_params(deep=False), **params}  # type: ignore[attr-defined]
        for name in params:
            owner, nested, own = name.partition("__")
            if nested and owner in given and not hasattr(given[owner], "set_params"):
                raise ValueError(_nobody(type(self).__name__, name, owner, own, given[owner]))
        super().set_params(**params)  # type: ignore[misc]
        return self


def _nobody(who: str, name: str, owner: str, own: str, value: Any) -> str:
    """Why a nested parameter cannot be set, and what to do."""
    if isinstance(value, Kernel):
        return f"{name} cannot be set on {who}: kernel={value!r} is a value that never changes; pass another one."
    instead = f"pass an object that has a parameter {own} as {owner}="
    if owner == "kernel":
        instead = "pass a kernel that is made with its parameters, such as kernel=RBF(lengthscale=2.0)"
    kind = "a name" if isinstance(value, str) else "no estimator"
    return f"{name} cannot be set on {who}: {owner}={value!r} is {kind} and has no parameters of its own; {instead}."
