"""The parameters of machines with any loss, and what a fit of them learns."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from gramian.docstrings import documented
from gramian.estimators.base import COMMON, Expansion
from gramian.solvers.machine.penalties import NEEDS


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class MachineParameters(Expansion):
    """The parameters of KernelMachineRegressor and KernelMachineClassifier. Not for direct use.

    Parameters
    ----------
    penalty : {"squared", "norm", "ball"} or object, default="squared"
        ``(lam/2) ‖f‖²``; ``lam ‖f‖``, with which f can be exactly zero; ``‖f‖ <= radius``; or ``lam g(‖f‖)`` for an
        object with ``value(r)`` and ``derivative(r)`` of an increasing g. Each of several functions has its own.
    lam : float or "cv", default=1e-3
        The strength of the penalty. ``0`` is the limit of lam → 0: the minimiser of the loss with the least norm, if
        the loss has a minimum. ``"cv"`` takes the value of ``lams`` with the least loss under cross-validation.
    radius : float, default=1.0
        The bound on ‖f‖ of ``penalty="ball"``, which has no lam.
    kernel : str, Kernel or callable, default="rbf"
        The kernel; ``"precomputed"`` if X is the Gram matrix.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b to f.
    approximation : map or None, default=None
        An unfitted ``Nystroem``, ``FourierFeatures`` or other map ψ: f is then fitted with the kernel
        ``<ψ(x), ψ(z)>``, and only landmarks or weights of features are kept. The map uses the kernel given here.
    solver : {"auto", "newton", "proximal", "ccp", "bundle"}, default="auto"
        ``"newton"`` for losses with curvature, ``"proximal"`` for losses with kinks (after pair steps on the dual, if
        that is a box-constrained quadratic program), ``"ccp"`` for differences of convex losses, ``"bundle"`` for
        losses of all values jointly. ``"auto"`` decides by the methods of the loss; see ``solver_``.
    lams : array-like of shape (g,) or None, default=None
        The grid of ``lam="cv"``; by default 13 values over six decades.
    cv : int, splitter or iterable, default=None
        Folds of ``lam="cv"``, as in scikit-learn; ``None`` means five.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which K is computed and multiplied, through torch (``pip install '.[gpu]'``); ``"auto"`` takes a GPU
        if there is one and the kernel can run on it. Saved models do not keep it.
    tol : float, default=1e-6
        Relative duality gap to reach and to certify. With a map the last digits cost little, and f is within
        1e-8 of the optimum, relative to its norm.
    max_iter : int, default=1000
        Most Newton steps; n pair steps on the dual count as one.
    random_state : int, RandomState, Generator or None, default=None
        The randomness of the landmarks of the preconditioner, which are always the same with ``None``, and of
        ``approximation``.
    warm_start : bool, default=False
        Whether to start from the last fit, if it had as many functions and as many rows or, with a map, features.
    {those of KernelParameters}

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, k)
        Coefficients in float64; those of the landmarks with ``Nystroem``, absent with other maps.
    dual_point_ : array of shape (n,) or (n, k)
        Without an approximation: the dual point of the certificate, one slope of the loss for each row.
    coef_ : array of shape (m,) or (m, k)
        With a map that has no landmarks: the weights of its features, instead of ``dual_coef_``, ``X_fit_`` and
        ``function_``.
    intercept_ : float or array of shape (k,)
        The constants.
    X_fit_ : array, CSR or array of object of shape (n, d)
        The rows that the coefficients belong to.
    function_ : Function or array of Function
        The fitted function without its constant, or one per column.
    loss_ : object
        The loss.
    lam_ : float
        The lam used; not with ``penalty="ball"``.
    multiplier_ : float or array
        The lam of the squared penalty with the same solution; for the ball, the multiplier of the constraint; infinite
        if ``penalty="norm"`` made f zero.
    certificate_ : Certificate
        The duality gap, the worst of several functions; of kind "stationary" if the loss has no conjugate or is not
        convex.
    n_iter_ : int
        Newton steps; pair steps if these alone solved the dual of a loss with kinks.
    solver_ : Choice
        Which solver was used, and why.
    lams_, cv_path_ : array of shape (g,)
        With ``lam="cv"``: the grid, and the mean losses on held-out rows.
    approximation_ : estimator
        The fitted map, if ``approximation`` is given.
    {those of KernelParameters}
    """

    loss: Any = field(default="huber", kw_only=False)
    penalty: Any = "squared"
    lam: Any = 1e-3
    radius: float = 1.0
    kernel: Any = "rbf"
    fit_intercept: bool = True
    approximation: Any = None
    solver: str = "auto"
    lams: Any = None
    cv: Any = None
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Any = None
    warm_start: bool = False
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "loss": [str, HasMethods(["value", "gradient"])],
        "penalty": [StrOptions({"squared", "norm", "ball"}), HasMethods(["value", "derivative"])],
        "lam": [Interval(Real, 0, None, closed="left"), StrOptions({"cv"})],
        "radius": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"auto", *NEEDS})],
        "lams": ["array-like", None],
        "cv": ["cv_object"],
    }
    _elsewhere: ClassVar[dict[str, str]] = {
        "alpha": "write lam=alpha/n: scikit-learn's KernelRidge minimises Σ (f - y)² + alpha ‖f‖².",
        "C": "write lam=1/(n*C): the SVM minimises ‖f‖² / 2 + C Σ loss.",
    }
