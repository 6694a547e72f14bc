"""Parameters of parameters: scikit-learn's ``kernel__lengthscale=2.0``, and where there is nobody to take it."""

from __future__ import annotations

from typing import Any, Self

from gramian.kernels import Kernel

__all__ = ["Nested"]


class Nested:
    """A mixin for estimators with a kernel: its fields are parameters too, though a kernel is a frozen value."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return those of a kernel, as ``kernel__left__lengthscale``, and of a map as well.

        Returns
        -------
        dict
            Values by name.
        """
        params: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        kernels = [(name, value) for name, value in params.items() if deep and isinstance(value, Kernel)]
        for owner, kernel in kernels:
            inside = kernel.all_fields().items()
            params |= {f"{owner}__{name.replace('.', '__')}": value for name, value in inside}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            As in the constructor; ``approximation__n_components`` is ``n_components`` of the object that was passed as
            ``approximation``, ``kernel__left__lengthscale`` that of the left term of a sum of kernels, which is then
            replaced.

        Returns
        -------
        estimator
            The estimator itself.
        """
        given = {**self.get_params(deep=False), **params}
        changes: dict[str, dict[str, Any]] = {}
        for name in list(params):
            owner, nested, own = name.partition("__")
            if nested and isinstance(given.get(owner), Kernel):
                changes.setdefault(owner, {})[own.replace("__", ".")] = params.pop(name)
            elif nested and owner in given and not hasattr(given[owner], "set_params"):
                raise ValueError(_nobody(type(self).__name__, name, owner, own, given[owner]))
        params |= {owner: given[owner].with_fields(inside) for owner, inside in changes.items()}
        super().set_params(**params)  # type: ignore[misc]
        return self


def _nobody(who: str, name: str, owner: str, own: str, value: Any) -> str:
    """Why a nested parameter cannot be set, and what to do."""
    instead = f"pass an object that has a parameter {own} as {owner}="
    if owner == "kernel":
        instead = "pass a kernel that has it, such as kernel=RBF(lengthscale=2.0), and set kernel__lengthscale then"
    kind = "a name" if isinstance(value, str) else "no estimator"
    return f"{name} cannot be set on {who}: {owner}={value!r} is {kind} and has no parameters of its own; {instead}."
