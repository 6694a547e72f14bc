"""AutoKernelClassifier: from a table and a class to predict to a tuned, calibrated kernel machine."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.docstrings import documented
from gramian.estimators.auto.base import AutoKernel
from gramian.estimators.auto.response import Classes, fit_softmax
from gramian.estimators.auto.scoring import scoring_of
from gramian.estimators.auto.tables import plain
from gramian.estimators.base import class_weights

Array = NDArray[np.float64]


@documented
@dataclass(eq=False, repr=False)
class AutoKernelClassifier(ClassifierMixin, AutoKernel):
    """Classification by the kernel machine that a search finds best, with calibrated probabilities.

    Columns are read by their kind (numbers, categories, booleans, dates, free text; gaps are filled and marked) and
    brought to one scale in several ways. Gaussian processes on one-hot codes with several kernels, one lengthscale for
    all columns, one each, or a metric of all directions, kernel ridge, support vectors and kernel logistic regression
    are judged by cross-validation: on few rows first, the better part on more. The winner, an average of the best where
    that helps rows which its weights were not learned from, is fitted to all rows: exactly where ``time_limit`` and
    ``memory`` allow, else by conjugate gradients, else through landmarks (``refit_`` says which, and why).
    Probabilities are the softmax of its outputs, with a temperature and a constant for each class that suit rows it had
    not seen.

    Parameters
    ----------
    {those of AutoKernel}
    scoring : str, callable or None, default=None
        What to judge by: ``"log_loss"`` (the default), ``"error"``, ``"accuracy"``, ``"roc_auc"``,
        ``"average_precision"``, ``"balanced_accuracy"``, ``"f1"`` (of the second class of two; of several, on
        average), the name of a scorer of scikit-learn (to which the second class of two is the positive one), or a
        callable as scikit-learn has it, whose X are row numbers.
    class_weight : dict, "balanced" or None, default=None
        How much more a mistake in each class counts where ``predict`` chooses labels. Probabilities are those of the
        classes as they are, and do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels.
    leaderboard_ : Leaderboard
        Every trial, baselines (the majority, a linear model) included; prints as a table.
    {those of AutoKernel}
    best_ : estimator
        The winner, fitted to all rows as ``columns_`` and ``scaling_`` make them, its targets being codes; of an
        average, the machine that counts for most.
    weights_ : array of shape (1 + len(others_),)
        What the outputs of ``best_`` and of each of ``others_`` are multiplied by.
    temperature_ : float
        One over what outputs are multiplied by before the softmax.
    threshold_ : float or None
        From which probability on ``predict`` says the second of two classes: where labels are judged (``"f1"``,
        ``"balanced_accuracy"``), what suits them on rows held out; else where mistakes cost the same. ``None`` for
        several classes.
    class_weight_ : array of shape (c,)
        How much more a mistake in each class counts.
    offsets_ : array of shape (c,)
        What is added to the outputs of each class, in their units.
    machine_ : str
        What ``best_`` is: ``"ridge"`` (least squares on codes), ``"svm"`` or ``"machine"``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import AutoKernelClassifier
    >>> X = np.random.default_rng(0).standard_normal((80, 2))
    >>> y = np.where((X**2).sum(axis=1) > 1.5, "far", "near")
    >>> model = AutoKernelClassifier(machines=["gp"], random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [3.0, 0.0]])
    array(['near', 'far'], dtype='<U4')
    >>> model.best_trial_.score < model.baseline_
    True
    """

    _: KW_ONLY
    class_weight: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AutoKernel._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def _response(self, y: Any, weights: Array | None) -> Classes:
        y = _check_y(column_or_1d(plain(y), warn=True), estimator=self)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"y has only 1 class, {self.classes_[0]}; a classifier needs two or more.")
        scoring = scoring_of(self.scoring, classes=True, labels=self.classes_)
        if self.class_weight is None:
            return Classes(codes, int(self.classes_.size), scoring, weights)
        costs = class_weights(self.class_weight, self.classes_, np.bincount(codes, weights), positive=True)
        return Classes(codes, int(self.classes_.size), scoring, weights, costs)

    def _calibrate(self, response: Classes, held: Array, rows: NDArray[np.intp]) -> Array:
        codes, weights = response.codes[rows], response.weights_of(rows)
        factor, constants = fit_softmax(held, codes, weights)
        self.temperature_, self.offsets_ = 1.0 / factor, constants / factor
        logs = log_softmax(factor * held + constants, axis=1)
        threshold = response.decided(logs, codes, weights)[0]
        self.threshold_ = threshold if self.classes_.size == 2 else None
        self.class_weight_ = np.ones(self.classes_.size) if response.costs is None else response.costs
        return np.asarray(np.exp(logs))

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Return what the machine says before it is made a probability.

        Parameters
        ----------
        X : table of shape (m, d)
            New rows.

        Returns
        -------
        array of shape (m,) or (m, c)
            Of two classes, positive for the second; else one column for each class, the largest winning.
        """
        scores = self._scores(X)
        if self.classes_.size == 2:
            return scores[:, 1] - scores[:, 0] - self.temperature_ * logit(getattr(self, "threshold_", 0.5))
        return scores + self.temperature_ * np.log(getattr(self, "class_weight_", np.ones(self.classes_.size)))

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : table of shape (m, d)
            New rows.

        Returns
        -------
        array of shape (m,)
            Labels: of two classes, the second where its probability is above ``threshold_``; of several, the one of
            the largest probability times ``class_weight_``.
        """
        f = self.decision_function(X)
        return np.asarray(self.classes_[(f > 0).astype(np.intp) if f.ndim == 1 else np.argmax(f, axis=1)])

    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Predict calibrated probabilities, in the order of ``classes_``: X, a table (m, d) → (m, c)."""
        return np.asarray(softmax(self._scores(X) / self.temperature_, axis=1))

    @by_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithms of the probabilities: X, a table (m, d) → (m, c)."""
        return np.asarray(log_softmax(self._scores(X) / self.temperature_, axis=1))

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        response = Classes.fitted(int(self.classes_.size), np.asarray(self._centre), self._scale)
        parts = [weight * response.outputs(model, Z) for weight, _, model, Z in self._members(X)]
        return np.asarray(sum(parts[1:], parts[0]) + self.offsets_)
