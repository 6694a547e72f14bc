"""Learnable parameters of kernels: ``theta``, the tree of kernels that holds them, and nested parameter names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gramian.docstrings import entries

Number = float | tuple[float, ...] | tuple[tuple[float, ...], ...]
Bounds = tuple[float, float] | str
FREE: tuple[float, float] = (1e-5, 1e5)
LOG_RANGE = (-700.0, 700.0)
"""Range of logarithms whose exponentials are normal floating-point numbers."""


@dataclass(frozen=True)
class Parameter:
    """One named parameter of one kernel in a tree."""

    name: str  # Its name, with the path from the root of the tree: ``left.lengthscale``
    value: Number  # Its value
    bounds: Bounds  # The range in which it is learned
    signed: bool = False  # Whether theta has the value itself and not its logarithm

    @property
    def values(self) -> NDArray[np.float64]:
        """The value as an array, one entry per number."""
        return np.asarray(self.value, dtype=np.float64).reshape(-1)

    @property
    def free(self) -> bool:
        """Whether it is in theta: not fixed, and either signed or positive."""
        if self.bounds == "fixed" or self.signed:
            return self.bounds != "fixed"
        return self.value > 0 if isinstance(self.value, float) else bool(np.all(self.values > 0))

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Its entries of theta."""
        return self.values if self.signed else np.log(self.values)

    @property
    def limits(self) -> NDArray[np.float64]:
        """The bounds of each of its entries of theta."""
        bounds = np.asarray(self.bounds, dtype=np.float64)
        return bounds if self.signed else np.log(bounds)

    @property
    def names(self) -> list[str]:
        """The names of its entries of theta."""
        shape = np.shape(self.value)
        return [self.name + (f"[{','.join(map(str, i))}]" if shape else "") for i in np.ndindex(shape)]

    def at(self, coordinates: NDArray[np.float64]) -> Number:
        """Return the value, in the same shape, for given entries of theta."""
        # Never zero or infinite, which would remove the parameter from theta.
        values = coordinates if self.signed else np.exp(np.clip(coordinates, *LOG_RANGE))
        return frozen(values.reshape(np.shape(self.value)).tolist())


def check_number(owner: str, name: str, value: Any, *, zero: bool = False, vector: bool = False) -> Number:
    """Check a parameter given by a user."""
    if type(value) is float and 0.0 < value < np.inf:
        return value
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: {name} must be a number, got {value!r}.") from None
    if numbers.ndim > (1 if vector else 0) or numbers.size == 0:
        shape = "a number or one number per input" if vector else "one number"
        raise ValueError(f"{owner}: {name} must be {shape}, got {value!r}.")
    bad = ~np.isfinite(numbers) | (numbers < 0) | ((numbers == 0) & (not zero))
    if np.any(bad):
        sign = ">= 0" if zero else "> 0"
        raise ValueError(f"{owner}: {name} must be finite and {sign}, got {value!r}; otherwise it is not a kernel.")
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def frozen(value: Any) -> Any:
    """Return lists, nested ones too, as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def check_bounds(owner: str, name: str, bounds: Any, least: float = 0.0) -> Bounds:
    """Check the range in which a parameter may be learned, above ``least``."""
    if isinstance(bounds, str) and bounds == "fixed":
        return bounds
    if isinstance(bounds, list | tuple | np.ndarray) and len(bounds) == 2 and least < bounds[0] <= bounds[1] < np.inf:
        return float(bounds[0]), float(bounds[1])
    low = "low <= high" if least < 0 else "0 < low <= high"
    raise ValueError(
        f"{owner}: {name}_bounds must be (low, high) with {low}, or 'fixed': a search requires that all bounds are "
        f"finite; got {bounds!r}."
    )


def natural(what: str, value: Any) -> int:
    """Check a natural number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value).is_integer() or float(value) < 1:
        raise ValueError(f"{what} must be a natural number, got {value!r}.")
    return int(float(value))


class Tunable:
    """The interface of a kernel to optimisers: a vector ``theta`` of logarithms, and the kernel for a given ``theta``.

    A subclass is a frozen dataclass that names its positive fields in ``parameters`` and its operands in ``operands``.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are positive numbers, learned unless fixed; each has a field ``<name>_bounds``."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    """Those parameters that may be zero."""
    per_input: ClassVar[tuple[str, ...]] = ()
    """Those parameters that may hold one number per input."""
    operands: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are kernels."""

    def __post_init__(self) -> None:
        for name, child in zip(self.operands, self.children, strict=True):
            if not isinstance(child, Tunable):
                raise TypeError(f"{self.name}: {name} must be a kernel, got {child!r}.")
        for name in self.parameters:
            zero, vector = name in self.may_be_zero, name in self.per_input
            value = check_number(self.name, name, getattr(self, name), zero=zero, vector=vector)
            object.__setattr__(self, name, value)
            bounds = check_bounds(self.name, name, getattr(self, f"{name}_bounds"))
            object.__setattr__(self, f"{name}_bounds", bounds)

    @property
    def name(self) -> str:
        """The kernel's name in messages."""
        return type(self).__name__

    @property
    def children(self) -> tuple[Any, ...]:
        """The operands of this kernel."""
        return tuple(getattr(self, name) for name in self.operands)

    @property
    def _own_free(self) -> list[str]:
        return [p.name for p in self._own_parameters() if p.free]

    def _own_parameters(self) -> Iterator[Parameter]:
        for name in self.parameters:
            yield Parameter(name, getattr(self, name), getattr(self, f"{name}_bounds"))

    def all_parameters(self) -> list[Parameter]:
        """List the parameters of the whole tree, fixed ones included, in the order of ``theta``."""
        names = zip(self.operands, self.children, strict=True)
        inside = [replace(p, name=f"{name}.{p.name}") for name, child in names for p in child.all_parameters()]
        return [*self._own_parameters(), *inside]

    def all_fields(self) -> dict[str, Any]:
        """List all fields of the expression, operands included, by names such as ``left.lengthscale``."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        inside = zip(self.operands, self.children, strict=True)
        return own | {f"{name}.{k}": v for name, child in inside for k, v in child.all_fields().items()}

    def with_fields(self, changes: dict[str, Any]) -> Self:
        """Return the expression with some fields changed: values by the names of ``all_fields`` → Kernel.

        Examples
        --------
        >>> from gramian.kernels import RBF, White
        >>> (RBF(1.0) + White(0.1)).with_fields({"left.lengthscale": 3.0})
        RBF(3.0) + White(0.1)
        """
        own = {name: value for name, value in changes.items() if "." not in name}
        inside: dict[str, dict[str, Any]] = {}
        for operand, dot, name in (key.partition(".") for key in changes.keys() - own.keys()):
            inside.setdefault(operand, {})[name] = changes[f"{operand}{dot}{name}"]
        known = {field.name for field in fields(self)}
        if unknown := sorted((own.keys() - known) | (inside.keys() - set(self.operands))):
            raise ValueError(f"{self!r} has parameters {list(self.all_fields())}, not {unknown}.")
        for operand, those in inside.items():
            own[operand] = own.get(operand, getattr(self, operand)).with_fields(those)
        return replace(self, **own)

    @property
    def _free(self) -> list[Parameter]:
        return [p for p in self.all_parameters() if p.free]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Natural logarithms of the free parameters; entries of a metric without the logarithm."""
        return np.concatenate([np.zeros(0), *(p.coordinates for p in self._free)])

    @property
    def _size(self) -> int:
        """The number of entries of ``theta``."""
        own = sum(np.size(p.value) for p in self._own_parameters() if p.free)
        return own + sum(child._size for child in self.children)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Bounds of ``theta``, shape (p, 2)."""
        return np.array([p.limits for p in self._free for _ in p.values]).reshape(-1, 2)

    @property
    def theta_names(self) -> list[str]:
        """The name of each entry of ``theta``, such as ``left.lengthscale[2]``."""
        return [name for p in self._free for name in p.names]

    def with_theta(self, theta: Sequence[float] | NDArray[np.float64]) -> Self:
        """Return the same expression with other values for its free parameters: theta (p,) → Kernel."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self._size,):
            raise ValueError(f"theta must have shape {(self._size,)} for {self!r}, got {theta.shape}.")
        return self._taking(theta)[0]

    def _taking(self, theta: NDArray[np.float64]) -> tuple[Self, NDArray[np.float64]]:
        """The expression with the first entries of theta as its free parameters, and the entries that are left."""
        changes: dict[str, Any] = {}
        for p in self._own_parameters():
            if p.free:
                changes[p.name], theta = p.at(theta[: np.size(p.value)]), theta[np.size(p.value) :]
        for name, child in zip(self.operands, self.children, strict=True):
            changes[name], theta = child._taking(theta)
        return self.with_fields(changes) if changes else self, theta

    def fix(self, *names: str) -> Self:
        """Return the kernel with parameters fixed, all without names: names of ``theta_names``, no index → Kernel."""
        listed = [p.name for p in self.all_parameters()]
        if unknown := sorted(set(names) - set(listed)):
            raise ValueError(f"{self!r} has parameters {listed}, not {unknown}.")
        return self.with_fields({f"{name}_bounds": "fixed" for name in names or listed})


class _OfInit:
    """The signature of ``__init__`` without self, keyword-only parameters in the order of the docstring."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        signed: inspect.Signature | None = vars(owner).get("_signed")
        if signed is not None:
            return signed
        own = inspect.signature(owner.__init__)
        explained = ", ".join(entries(inspect.cleandoc(owner.__doc__ or ""), "Parameters")).split(", ")
        place = {name: i for i, name in enumerate(explained)}

        def order(p: inspect.Parameter) -> tuple[int, int]:
            return p.kind, place.get(p.name, len(place)) if p.kind is p.KEYWORD_ONLY else 0

        signed = owner._signed = own.replace(parameters=sorted(list(own.parameters.values())[1:], key=order))
        return signed


class Nested:
    """A mixin for estimators with a kernel: fields of the frozen kernel can be read and set as nested parameters."""

    __signature__: ClassVar[Any] = _OfInit()
    _elsewhere: ClassVar[dict[str, str]] = {}
    """Our names for parameters of other estimators."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        for name in kwargs.keys() & cls._elsewhere.keys():
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; {cls._elsewhere[name]}")
        return super().__new__(cls)

    _names: ClassVar[tuple[str, ...]]
    _signed: ClassVar[inspect.Signature]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Read the signature once for each class: scikit-learn does it several times for every fit, 50 µs each."""
        if "_names" not in vars(cls):
            cls._names = tuple(super()._get_param_names())  # type: ignore[misc]
        return list(cls._names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if ``deep`` also those of the kernel, as ``kernel__left__lengthscale``: → dict."""
        params: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        kernels = [(name, value) for name, value in params.items() if deep and isinstance(value, Tunable)]
        for owner, kernel in kernels:
            inside = kernel.all_fields().items()
            params |= {f"{owner}__{name.replace('.', '__')}": value for name, value in inside}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            As in the constructor; ``approximation__n_components`` sets ``n_components`` of the object passed as
            ``approximation``, ``kernel__left__lengthscale`` the lengthscale of the left term of a sum of kernels, by
            replacing the kernel.
        """
        for name in params.keys() & self._elsewhere.keys():
            raise ValueError(f"Invalid parameter {name!r} for estimator {type(self).__name__}; {self._elsewhere[name]}")
        given = {**self.get_params(deep=False), **params}
        changes: dict[str, dict[str, Any]] = {}
        for name in list(params):
            owner, nested, own = name.partition("__")
            if nested and isinstance(given.get(owner), Tunable):
                changes.setdefault(owner, {})[own.replace("__", ".")] = params.pop(name)
            elif nested and owner in given and not hasattr(given[owner], "set_params"):
                raise ValueError(_nobody(type(self).__name__, name, owner, own, given[owner]))
        params |= {owner: given[owner].with_fields(inside) for owner, inside in changes.items()}
        super().set_params(**params)  # type: ignore[misc]
        return self


def _nobody(who: str, name: str, owner: str, own: str, value: Any) -> str:
    """The error message for a nested parameter that cannot be set."""
    instead = f"pass an object that has a parameter {own} as {owner}="
    if owner == "kernel":
        instead = "pass a kernel that has it, such as kernel=RBF(lengthscale=2.0), and then set kernel__lengthscale"
    kind = "a name" if isinstance(value, str) else "no estimator"
    return f"{name} cannot be set on {who}: {owner}={value!r} is {kind} and has no parameters of its own; {instead}."
