"""``Tunable``: a frozen value in a tree of such values, whose positive numbers can be learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gramian.kernels.parameters import Parameter, check_bounds, check_number

__all__ = ["Tunable"]

LOG_RANGE = (-700.0, 700.0)
"""Logarithms whose exponentials are normal numbers."""


class Tunable:
    """What a kernel is to an optimiser: a vector ``theta`` of logarithms, and the way back.

    A subclass is a frozen dataclass that names its positive fields in ``parameters`` and its operands in ``operands``.
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are positive numbers, learned unless fixed; ``<name>_bounds`` stands beside each."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    """Those of them that may be zero."""
    per_input: ClassVar[tuple[str, ...]] = ()
    """Those of them that may hold one number per input."""
    operands: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are kernels."""

    def __post_init__(self) -> None:
        for name, child in zip(self.operands, self.children, strict=True):
            if not isinstance(child, Tunable):
                raise TypeError(f"{self.name}: {name} must be a kernel, got {child!r}.")
        for name in self.parameters:
            value = check_number(
                self.name,
                name,
                getattr(self, name),
                zero=name in self.may_be_zero,
                vector=name in self.per_input,
            )
            object.__setattr__(self, name, value)
            bounds = check_bounds(self.name, name, getattr(self, f"{name}_bounds"))
            object.__setattr__(self, f"{name}_bounds", bounds)

    @property
    def name(self) -> str:
        """The kernel's name, as messages spell it."""
        return type(self).__name__

    @property
    def children(self) -> tuple[Any, ...]:
        """The kernels this one is made of."""
        return tuple(getattr(self, name) for name in self.operands)

    @property
    def _own_free(self) -> list[str]:
        return [p.name for p in self._own_parameters() if p.free]

    def _own_parameters(self) -> Iterator[Parameter]:
        for name in self.parameters:
            yield Parameter(name, getattr(self, name), getattr(self, f"{name}_bounds"))

    def all_parameters(self) -> list[Parameter]:
        """List the parameters of the whole tree, in the order of ``theta``.

        Returns
        -------
        list of Parameter
            Fixed ones included.
        """
        listed = list(self._own_parameters())
        for name, child in zip(self.operands, self.children, strict=True):
            listed += [replace(p, name=f"{name}.{p.name}") for p in child.all_parameters()]
        return listed

    def all_fields(self) -> dict[str, Any]:
        """List everything that the expression is made of.

        Returns
        -------
        dict
            By names such as ``left.lengthscale``; operands themselves are among them.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        inside = zip(self.operands, self.children, strict=True)
        return own | {f"{name}.{k}": v for name, child in inside for k, v in child.all_fields().items()}

    def with_fields(self, changes: dict[str, Any]) -> Self:
        """Return the same expression with some of its fields changed.

        Parameters
        ----------
        changes : dict
            New values, by names as ``all_fields`` has them.

        Returns
        -------
        Kernel
            A new kernel.

        Examples
        --------
        >>> from gramian.kernels import RBF, White
        >>> (RBF(1.0) + White(0.1)).with_fields({"left.lengthscale": 3.0})
        RBF(3.0) + White(0.1)
        """
        known = self.all_fields()
        own = {name: value for name, value in changes.items() if "." not in name}
        inside: dict[str, dict[str, Any]] = {}
        for operand, dot, name in (key.partition(".") for key in changes.keys() - own.keys()):
            inside.setdefault(operand, {})[name] = changes[f"{operand}{dot}{name}"]
        if unknown := sorted((own.keys() - known.keys()) | (inside.keys() - set(self.operands))):
            raise ValueError(f"{self!r} has parameters {list(known)}, not {unknown}.")
        for operand, those in inside.items():
            own[operand] = own.get(operand, getattr(self, operand)).with_fields(those)
        return replace(self, **own)  # type: ignore[type-var]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Natural logarithms of the free parameters."""
        return np.concatenate([np.zeros(0), *(np.log(p.values) for p in self.all_parameters() if p.free)])

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Bounds of ``theta``, shape (p, 2)."""
        rows = [np.log(p.bounds) for p in self.all_parameters() if p.free for _ in p.values]
        return np.array(rows).reshape(-1, 2)

    @property
    def theta_names(self) -> list[str]:
        """What each entry of ``theta`` is: ``left.lengthscale[2]``."""
        names = []
        for p in self.all_parameters():
            if p.free:
                several = isinstance(p.value, tuple)
                names += [f"{p.name}[{i}]" if several else p.name for i in range(p.values.size)]
        return names

    def with_theta(self, theta: Sequence[float] | NDArray[np.float64]) -> Self:
        """Return the same expression with other values for its free parameters.

        Parameters
        ----------
        theta : array-like of shape (p,)
            Natural logarithms.

        Returns
        -------
        Kernel
            A new kernel.
        """
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.theta.shape:
            raise ValueError(f"theta must have shape {self.theta.shape} for {self!r}, got {theta.shape}.")
        changes: dict[str, Any] = {}
        start = 0
        for p in self._own_parameters():
            if p.free:
                # Never to zero or infinity, where a parameter would lose its place in theta.
                values = np.exp(np.clip(theta[start : start + p.values.size], *LOG_RANGE))
                changes[p.name] = tuple(values.tolist()) if isinstance(p.value, tuple) else float(values[0])
                start += p.values.size
        for name, child in zip(self.operands, self.children, strict=True):
            size = child.theta.size
            changes[name] = child.with_theta(theta[start : start + size])
            start += size
        return replace(self, **changes)  # type: ignore[type-var]

    def fix(self, *names: str) -> Self:
        """Return the kernel with parameters kept out of ``theta``.

        Parameters
        ----------
        *names : str
            Names as ``theta_names`` has them, without an index: ``left.lengthscale``; none for all.

        Returns
        -------
        Kernel
            A new kernel.
        """
        listed = [p.name for p in self.all_parameters()]
        if unknown := sorted(set(names) - set(listed)):
            raise ValueError(f"{self!r} has parameters {listed}, not {unknown}.")
        return self._fixed(names or tuple(listed))

    def _fixed(self, names: tuple[str, ...]) -> Self:
        changes: dict[str, Any] = {f"{name}_bounds": "fixed" for name in names if name in self.parameters}
        for operand, child in zip(self.operands, self.children, strict=True):
            inside = tuple(name.removeprefix(f"{operand}.") for name in names if name.startswith(f"{operand}."))
            if inside:
                changes[operand] = child._fixed(inside)
        return replace(self, **changes)  # type: ignore[type-var]
