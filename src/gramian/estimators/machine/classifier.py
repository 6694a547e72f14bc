"""KernelMachineClassifier: kernel classification with any loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.data.passes import Need, Part
from gramian.docstrings import documented
from gramian.estimators.base import class_weights, validated
from gramian.estimators.machine.base import Exact, InFeatures, Machine
from gramian.features.base import available_if
from gramian.gram.operator import narrow
from gramian.losses import offers, resolve

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelTargets:
    """Labels as targets: ±1 for each class against the rest, or one indicator column per class for coupled losses."""

    loss: Any
    classes: NDArray[Any]  # (c,): The labels, in order
    weights: Array  # (c,): Weights of the classes

    @property
    def coupled(self) -> bool:
        """Whether the loss takes all classes at once."""
        return bool(getattr(self.loss, "coupled", False))

    @property
    def losses(self) -> tuple[Any, ...]:
        """The loss of each function: one for two classes or a coupled loss, else one per class against the rest."""
        return (self.loss,) * (1 if self.coupled or self.classes.size == 2 else self.classes.size)

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        codes = np.searchsorted(self.classes, np.asarray(part.y))
        weights = part.weights * self.weights[codes]
        if self.coupled:
            return [np.eye(self.classes.size)[codes]], weights
        return [signs[:, None] for signs in signs_of(codes, self.classes.size)], weights


def signs_of(codes: NDArray[np.intp], classes: int) -> list[Array]:
    """Return targets -1 and +1 of each function: one for two classes, else one per class against the rest."""
    return [np.where(codes == c, 1.0, -1.0) for c in ([1] if classes == 2 else range(classes))]


def _counted(shared: None, parts: Iterator[Part]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = [np.asarray(part.y) for part in parts]
    if not labels:
        return np.empty(0), np.empty(0, dtype=np.int64)
    if labels[0].ndim != 1:
        raise ValueError(f"labels must be one column, got {labels[0].shape[1]}.")
    found, counts = np.unique(np.concatenate(labels), return_counts=True)
    check_classification_targets(found)
    return found, counts


def _labels_of(place: Exact | InFeatures) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct labels of all rows and their counts, in a pass that reads only labels."""
    found = [pair for pair in place.mapped(_counted, Need(X=False)) if pair[0].size]
    classes, codes = np.unique(np.concatenate([labels for labels, _ in found]), return_inverse=True)
    return classes, np.bincount(codes, weights=np.concatenate([counts for _, counts in found])).astype(np.int64)


def check_classes(name: str, classes: NDArray[Any], kept: NDArray[Any]) -> None:
    """Refuse a single class, and classes without a row of positive weight."""
    if classes.size < 2:
        raise ValueError(f"{name} needs at least two classes, got 1 class: {classes[0]!r}.")
    present = np.unique(kept).size
    if present < classes.size:
        raise ValueError(
            f"{name}: only {present} of the {classes.size} classes {'has' if present == 1 else 'have'} rows of "
            "positive weight; leave out the rows of the others."
        )


class Deciding:
    """Labels by the sign of one function, or by the largest of several. Not for direct use."""

    if TYPE_CHECKING:
        classes_: NDArray[Any]

        def _validated_rows(self, X: Any) -> Any: ...

    def _decision(self, X: Any) -> Array:
        """Decision values at validated rows in float64, (m,) or (m, c)."""
        raise NotImplementedError

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return fitted values, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows; k(new, train) if the kernel is precomputed.

        Returns
        -------
        array of shape (m,) or (m, c)
            For two classes, positive for the second; for more, one column per class.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(self._decision(X), X)

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels: X (m, d), k(new, train) if the kernel is precomputed → (m,)."""
        check_is_fitted(self)
        f = self._decision(self._validated_rows(X))
        best = (f > 0).astype(np.intp) if f.ndim == 1 else f.argmax(axis=1)
        return np.asarray(self.classes_[best])


def _likelihood(classifier: Any) -> bool:
    loss = resolve(classifier.loss)
    if not offers(loss, "probability"):
        raise AttributeError(
            f"predict_proba needs a loss that is a likelihood, which {type(loss).__name__} is not. Use "
            "loss='logistic', or CalibratedClassifierCV around this classifier."
        )
    return True


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachineClassifier(Deciding, Machine, ClassifierMixin, BaseEstimator):
    """Kernel classification with any loss: f and b minimise ``mean_i w_i loss(f(x_i) + b, y_i) + penalty(‖f‖)``.

    Logistic regression by default, whose fitted values give probabilities directly. More than two classes are fitted
    jointly if the loss allows (logistic becomes multinomial), else one against the rest.

    Parameters
    ----------
    loss : str or object, default="logistic"
        ``"logistic"``, ``"multinomial"``, ``"hinge"``, ``"squared_hinge"``, ``"ramp"``; a loss of ``gramian.losses``;
        or any object with ``value(f, y)`` and ``gradient(f, y)``, where y is -1 or +1.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied with those of rows.
    {those of MachineParameters}

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels.
    intercept_ : float or array of shape (k,)
        The constants; with a multinomial loss they sum to zero.
    {those of MachineParameters}

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
        **Machine._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _task: ClassVar[str] = "classification"
    _wrong: ClassVar[str] = "numbers; use KernelMachineRegressor, or a loss for labels."

    loss: Any = field(default="logistic", kw_only=False)
    class_weight: Any = None

    def _validated(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, NDArray[Any]]:
        X, y = validated(self, X, y, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _check_kept(self, y: Any, kept: Any) -> None:
        check_classes(type(self).__name__, np.unique(y), kept)

    def _targets(self, loss: Any, place: Exact | InFeatures) -> LabelTargets:
        self.classes_, counts = _labels_of(place)
        check_classes(type(self).__name__, self.classes_, self.classes_)
        weights = class_weights(self.class_weight, self.classes_, counts, positive=True)
        return LabelTargets(getattr(loss, "several", loss) if counts.size > 2 else loss, self.classes_, weights)

    # ---- predict ------------------------------------------------------------------------------------------------

    def _decision(self, X: Any) -> Array:
        f = self._values(X)
        if self.classes_.size > 2:
            return f
        return f[:, 0] if f.shape[1] == 1 else f[:, 1] - f[:, 0]

    @available_if(_likelihood)
    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of every class, if the loss is a likelihood: X (m, d) → (m, c)."""
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
        """Return the logarithms of the probabilities: X (m, d) → (m, c)."""
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(np.log(self._probability(X)), X)
