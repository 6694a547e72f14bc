"""KernelMachineClassifier: kernel classification with any loss."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.data.results import by_blocks
from gramian.estimators.approximation import opened, sampled
from gramian.estimators.base import (
    DTYPES,
    holds_objects,
    is_blocks,
    restored_on_failure,
    row_weights,
    warn_unless_converged,
)
from gramian.estimators.machine.base import MACHINE, Machine, plain_folds
from gramian.estimators.machine.places import Task
from gramian.estimators.machine.targets import Labels, class_weights, labels_of, of_codes
from gramian.gram.operator import narrow
from gramian.kernels.points import objects
from gramian.losses import offers, resolve
from gramian.progress import Clock

__all__ = ["KernelMachineClassifier"]


def _likelihood(classifier: Any) -> bool:
    loss = resolve(classifier.loss)
    if not offers(loss, "probability"):
        raise AttributeError(
            f"predict_proba needs a loss that is a likelihood; {type(loss).__name__} is none. Use loss='logistic', or "
            "CalibratedClassifierCV around this classifier."
        )
    return True


class KernelMachineClassifier(Machine, ClassifierMixin, BaseEstimator):
    """Kernel classification with any loss: f and b minimise ``mean_i w_i loss(f(x_i) + b, y_i) + penalty(‖f‖)``.

    Logistic regression by default, with probabilities that the loss itself calibrates. More than two classes are
    fitted together where the loss knows how (logistic becomes multinomial), else one against the rest.

    Parameters
    ----------
    loss : str or object, default="logistic"
        ``"logistic"``, ``"multinomial"``, ``"hinge"``, ``"squared_hinge"``, ``"ramp"``; a loss of ``gramian.losses``;
        or any object with ``value(f, y)`` and ``gradient(f, y)``, where y is -1 or +1.
    penalty : {"squared", "norm", "ball"}, default="squared"
        ``(lam/2) ‖f‖²``; ``lam ‖f‖``, with which f can be exactly zero; or ``‖f‖ <= radius``. Several functions have
        one each.
    lam : float or "cv", default=1e-3
        The strength, > 0. ``"cv"`` takes the value of ``lams`` with the least loss under cross-validation.
    radius : float, default=1.0
        Of ``penalty="ball"``, which has no lam.
    kernel : str, Kernel or callable, default="rbf"
        The kernel; ``"precomputed"`` where X is the Gram matrix.
    gamma : float or None, default=None
        Of a kernel given by name; ``None`` for 1 / d.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None, default=None
        Further keyword arguments of a callable kernel.
    fit_intercept : bool, default=True
        Whether a constant, which is not penalised, is added to f.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of rows.
    approximation : map or None, default=None
        ``Nystroem``, ``FourierFeatures`` or another map ψ, unfitted: f is then sought in the space of the kernel
        ``<ψ(x), ψ(z)>``, and only landmarks or the weights of the features are kept. The kernel is set here.
    solver : {"auto", "newton", "proximal", "ccp"}, default="auto"
        ``"newton"`` for losses with curvature, ``"proximal"`` for those with kinks (after pair steps on the dual, where
        that is a quadratic program on a box), ``"ccp"`` for differences of convex ones. ``"auto"`` decides by what
        the loss offers; see ``solver_``.
    lams : array-like of shape (g,) or None, default=None
        The grid of ``lam="cv"``; by default 13 values over six decades.
    cv : int, splitter or iterable, default=None
        Folds of ``lam="cv"``, as in scikit-learn; ``None`` for five.
    memory : int, str or None, default=None
        Bytes to hold at most, as a number or ``"2GB"``; by default half of what is available.
    tol : float, default=1e-6
        Relative duality gap to reach and to certify. Problems of up to 1,000 rows are solved to rounding; with a map
        the last digits cost little, and f is within 1e-8 of the optimum, relative to its norm.
    max_iter : int, default=1000
        Newton steps at most.
    max_time : float or None, default=None
        Seconds, after which the best so far is returned with a warning.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    verbose : int or bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of the preconditioner and of ``approximation``.
    warm_start : bool, default=False
        Whether to start from the last fit, where it had as many rows and functions; a number for
        each row is then kept.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels.
    dual_coef_ : array of shape (n,) or (n, k)
        Coefficients, float64; at the landmarks of a ``Nystroem`` approximation, and absent with other maps.
    coef_ : array of shape (m,) or (m, k)
        With a map that has no landmarks: the weights of its features, in place of ``dual_coef_``, ``X_fit_`` and
        ``function_``.
    intercept_ : float or array of shape (k,)
        The constants; of several classes under a multinomial loss, they sum to zero.
    X_fit_ : array, CSR or array of object of shape (n, d)
        The rows the coefficients belong to.
    function_ : Function or array of Function
        The fitted function without its constant, or one per column.
    loss_ : object
        The loss.
    lam_ : float
        The strength used; not with ``penalty="ball"``.
    multiplier_ : float or array
        The lam of the squared penalty with the same solution: of the ball, the constraint's multiplier; infinite
        where ``penalty="norm"`` made f zero.
    certificate_ : Certificate
        The duality gap; of several functions, the worst. Without a conjugate, or where the loss is not convex, of kind
        "stationary".
    n_iter_ : int
        Newton steps; pair steps where they alone solved the dual of a loss with kinks.
    solver_ : Choice
        Which solver was used, and why.
    kernel_ : Kernel
        The kernel used.
    lams_, cv_path_ : array of shape (g,)
        With ``lam="cv"``: the grid, and the mean losses on held-out rows.
    approximation_ : estimator
        The fitted map, where there is one.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where X had names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramian.estimators.machine.classifier import KernelMachineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelMachineClassifier(lam=1e-3).fit(X, y)
    >>> model.score(X, y) > 0.95, type(model.loss_).__name__
    (True, 'Multinomial')
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MACHINE,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        loss: Any = "logistic",
        *,
        penalty: str = "squared",
        lam: Any = 1e-3,
        radius: float = 1.0,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        approximation: Any = None,
        solver: str = "auto",
        lams: Any = None,
        cv: Any = None,
        memory: int | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = False,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.lam = lam
        self.radius = radius
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.approximation = approximation
        self.solver = solver
        self.lams = lams
        self.cv = cv
        self.memory = memory
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the functions.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix where the kernel is precomputed; objects where the kernel compares objects.
        y : array-like of shape (n,)
            Labels.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0; a row of weight zero is as good as absent.

        Returns
        -------
        KernelMachineClassifier
            The fitted estimator.
        """
        loss = resolve(self.loss)
        if getattr(loss, "task", "classification") != "classification":
            raise ValueError(
                f"{type(loss).__name__} is a loss of numbers; use KernelMachineRegressor, or a loss of labels."
            )
        if is_blocks(X):
            return self._fit_over_blocks(X, y, sample_weight, loss)
        with restored_on_failure(self):
            X, y = self._validated_labels(X, y)
            weights = row_weights(sample_weight, X)
            if self.class_weight is not None:
                weights = weights * compute_sample_weight(self.class_weight, y)
            self.classes_, codes = np.unique(y, return_inverse=True)
            self._check_classes(codes[weights > 0])
            if self.classes_.size > 2:
                loss = getattr(loss, "several", loss)
            tasks = self._tasks(loss, codes)
            self._fit_tasks(X, tasks, weights, lambda cv, rows: plain_folds(cv, rows, codes, classifier=True))
            self.loss_ = loss
            self._shape(len(self.intercept_) == 1)
        warn_unless_converged(self.certificate_, self)
        return self

    def _fit_over_blocks(self, X: Any, y: Any, sample_weight: Any, loss: Any) -> Self:
        clock = Clock(self.max_time)
        with restored_on_failure(self), opened(self, X, y, sample_weight) as passes:
            self._check_blocks()
            sample = sampled(self, passes)
            self.classes_, counts = labels_of(passes, type(self).__name__)
            if self.classes_.size > 2:
                loss = getattr(loss, "several", loss)
            coupled = bool(getattr(loss, "coupled", False))
            losses = (loss,) * (1 if coupled or self.classes_.size == 2 else self.classes_.size)
            targets = Labels(self.classes_, coupled, class_weights(self.class_weight, self.classes_, counts))
            self._fit_blocks(passes, sample, losses, targets, len(losses) == 1 and not coupled, clock)
            self.loss_ = loss
        warn_unless_converged(self.certificate_, self)
        return self

    def _validated_labels(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        if holds_objects(self.kernel, X):
            X, y = objects(X, kernel=type(self.kernel).__name__), column_or_1d(y, warn=True)
            self.n_features_in_ = 1
        else:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=DTYPES, order="C")
        check_classification_targets(y)
        return X, y

    def _check_classes(self, codes: NDArray[np.intp]) -> None:
        present = np.unique(codes)
        if present.size < self.classes_.size or present.size < 2:
            raise ValueError(
                f"KernelMachineClassifier needs rows of positive weight in at least two classes, and in every class; "
                f"got {present.size} class{'' if present.size == 1 else 'es'} of {self.classes_.size} so."
            )

    def _tasks(self, loss: Any, codes: NDArray[np.intp]) -> list[Task]:
        """One task for two classes or a loss that couples them, else each class against the rest."""
        coupled = bool(getattr(loss, "coupled", False))
        return [Task(loss, y) for y in of_codes(codes, self.classes_.size, coupled)]

    # ---- predict ------------------------------------------------------------------------------------------------

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return fitted values, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows; k(new, train) where the kernel is precomputed.

        Returns
        -------
        array of shape (m,) or (m, c)
            Of two classes, positive for the second; else one column per class.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(self._decision(X), X)

    def _decision(self, X: Any) -> NDArray[np.float64]:
        """Decision values at validated rows, in float64."""
        f = self._values(X)
        if self.classes_.size > 2:
            return f
        return f[:, 0] if f.shape[1] == 1 else f[:, 1] - f[:, 0]

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows.

        Returns
        -------
        array of shape (m,)
            Labels.
        """
        check_is_fitted(self)
        f = self._decision(self._validated_rows(X))
        best = (f > 0).astype(np.intp) if f.ndim == 1 else f.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_likelihood)
    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of every class; only where the loss is a likelihood.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows.

        Returns
        -------
        array of shape (m, c)
            Rows that sum to one.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(self._probability(X), X)

    def _probability(self, X: Any) -> NDArray[np.float64]:
        """Probabilities at validated rows, in float64."""
        f = self._values(X)
        return np.asarray(self.loss_.probability(f[:, 0] if f.shape[1] == 1 else f))

    @available_if(_likelihood)
    @by_blocks
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows.

        Returns
        -------
        array of shape (m, c)
            At most zero.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(np.log(self._probability(X)), X)
