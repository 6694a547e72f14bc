"""KernelMachineRegressor: kernel regression with any loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.data.passes import Part
from gramian.estimators.machine.base import Exact, InFeatures, Machine
from gramian.gram.operator import narrow
from gramian.solvers.in_features.least_squares import targets_of


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numeric targets: each column, repeated for every part of the loss."""

    loss: Any
    losses: tuple[Any, ...]  # One for each function

    def of(self, part: Part) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Return the targets of each function, and weights."""
        Y = targets_of(part)
        if hasattr(self.loss, "check_targets") and Y.any():  # A single part may hold only zeros
            self.loss.check_targets(Y)
        return [Y[:, [j]] for j in range(Y.shape[1]) for _ in range(len(self.losses) // Y.shape[1])], part.weights


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachineRegressor(Machine, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel regression with any loss: the f and b that minimise ``mean_i w_i loss(f(x_i) + b, y_i) + penalty(‖f‖)``.

    By the representer theorem f is a kernel expansion in the training rows for every loss, so one estimator covers
    least squares, medians and quantiles, robust and support vector regression and Poisson counts, each with a duality
    gap.

    Parameters
    ----------
    loss : str or object, default="huber"
        ``"squared"``, ``"absolute"``, ``"huber"``, ``"quantile"``, ``"epsilon_insensitive"``, ``"poisson"``; a loss of
        ``gramian.losses`` with its parameters; or any object with ``value(f, y)`` and ``gradient(f, y)``.
        ``Quantile([0.1, 0.9])`` predicts one column per quantile.
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
    gamma : {"scale", "auto"}, float or None, default=None
        For a kernel given by name: ``"scale"`` is 1 / (d var(X)), ``"auto"`` and ``None`` are 1 / d.
    degree, coef0 : float, default=3 and 1
        Degree of the polynomial kernel; constant of the polynomial and sigmoid kernels.
    kernel_params : dict or None, default=None
        Further keyword arguments of a callable kernel.
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
    memory : int, str or None, default=None
        The most bytes to hold, as a number or ``"2GB"``; by default half of what is available.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which K is computed and multiplied, through torch (``pip install '.[gpu]'``); ``"auto"`` takes a GPU
        if there is one and the kernel can run on it. Saved models do not keep it.
    tol : float, default=1e-6
        Relative duality gap to reach and to certify. With a map the last digits cost little, and f is within
        1e-8 of the optimum, relative to its norm.
    max_iter : int, default=1000
        Most Newton steps; n pair steps on the dual count as one.
    max_time : float or None, default=None
        Seconds after which the best solution so far is returned with a warning.
    n_jobs : int or None, default=None
        Threads; ``None`` means all cores.
    verbose : int or bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        The randomness of the landmarks of the preconditioner and of ``approximation``.
    warm_start : bool, default=False
        Whether to start from the last fit, if it had as many functions and as many rows or, with a map, features.

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
    kernel_ : Kernel
        The kernel used.
    lams_, cv_path_ : array of shape (g,)
        With ``lam="cv"``: the grid, and the mean losses on held-out rows.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    approximation_ : estimator
        The fitted map, if ``approximation`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.machine.regressor import KernelMachineRegressor
    >>> from gramian.losses import Quantile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (200, 1))
    >>> y = np.sin(X[:, 0]) + rng.standard_normal(200)
    >>> model = KernelMachineRegressor(Quantile([0.1, 0.9]), lam=1e-2).fit(X, y)
    >>> (y[:, None] < model.predict(X)).mean(axis=0).round(1)
    array([0.1, 0.9])
    >>> model.certificate_.converged
    True
    """

    _task: ClassVar[str] = "regression"
    _wrong: ClassVar[str] = "labels; use KernelMachineClassifier, or a loss for numbers."

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = positive = self._counts()
        # No tag says "several targets, all of them counts"; scikit-learn's own estimators for counts take one target.
        tags.target_tags.multi_output = not positive
        return tags

    def _counts(self) -> bool:
        """Whether the loss allows no negative targets."""
        return bool(self.loss == "poisson" or getattr(self.loss, "positive", False))

    def _validated(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, NDArray[np.float64]]:
        X, y = super()._validated(X, y, reset=reset)
        return X, column_or_1d(y, warn=True) if self._counts() and y.ndim == 2 and y.shape[1] == 1 else y

    def _targets(self, loss: Any, place: Exact | InFeatures) -> Numbers:
        parts, Y = tuple(getattr(loss, "parts", (loss,))), targets_of(place.sample)
        if len(parts) > 1 and Y.shape[1] > 1:
            raise ValueError(f"several quantiles need a single target, got {Y.shape[1]}; fit each target by itself.")
        if hasattr(loss, "check_targets"):
            loss.check_targets(Y)
        return Numbers(loss, parts * Y.shape[1])

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict targets, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows; k(new, train) if the kernel is precomputed.

        Returns
        -------
        array of shape (m,) or (m, k)
            What the loss estimates: a mean, a median, a quantile, the mean of a count; float32 if X is and they fit
            into float32.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        f = self._values(X)
        link = getattr(self.loss_, "inverse_link", None)
        out = narrow(f if link is None else np.asarray(link(f)), X)
        return out[:, 0] if np.ndim(self.intercept_) == 0 else out
