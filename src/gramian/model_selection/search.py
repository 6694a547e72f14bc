"""``KernelSearchCV``: scikit-learn's grid search, with the work on the kernel shared between its fits."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.model_selection._validation import (
    _fit_and_score,
    _insert_error_scores,
    _score,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_method_params

from gramian.model_selection.shared import Rows, Shared


class KernelSearchCV(GridSearchCV):
    """Search over a grid of parameters by cross-validation, making each Gram matrix once.

    Parameters, attributes and methods are those of scikit-learn's ``GridSearchCV``; ``best_params_`` and the scores
    agree with it to the tolerance of the estimator. Kernel ridge regression, the support vector machines, the machines
    with any loss and interpolation share work in two ways. Along ``C``, ``lam`` and ``epsilon`` each fit starts from
    the one before, and along ``nu`` fits share kernel rows. And all folds read one Gram matrix of all rows; for radial
    kernels, the matrices of all lengthscales (``gamma``) are computed from one matrix of distances. The matrix is not
    shared if it takes more than half of ``memory``, if a scorer may look at the rows, or on a GPU (``device=``). Ridge
    regression solves for all folds and all ``alpha`` together: by one inverse per alpha with few rows and many folds
    (leave-one-out), by conjugate gradients on all systems at once with many rows.

    All other candidates are fitted one by one, as in ``GridSearchCV``: other estimators and pipelines, and those with
    ``approximation``, ``kernel_params``, ``max_iter``, ``max_time`` or ``warm_start``; with callbacks, all candidates.

    Parameters
    ----------
    estimator : estimator
        The estimator to fit. Its ``memory`` bounds the shared matrices plus the memory of the fits.
    param_grid : dict or list of dict
        Parameter names, each with the values to try.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in ``GridSearchCV``. A plain function ``f(estimator, X, y)``, not made by ``make_scorer``, may look at the
        rows, so the folds then share no Gram matrix.
    n_jobs : int or None, default=None
        Threads for fits that share work, ``None`` for every core; processes for the others, ``None`` for one.
    refit : bool, str or callable, default=True
        Whether, or by which score, to fit ``best_estimator_`` to all rows.
    cv : int, splitter, iterable or None, default=None
        The folds, as in ``GridSearchCV``; ``None`` for five.
    verbose : int, default=0
        As in ``GridSearchCV``; fits that share work are not reported one by one.
    pre_dispatch : int or str, default="2*n_jobs"
        Jobs dispatched to the processes in advance, as in ``GridSearchCV``.
    error_score : "raise" or number, default=nan
        The score of a fit that fails.
    return_train_score : bool, default=False
        Whether to score the training rows too.

    Attributes
    ----------
    cv_results_ : dict of arrays
        Parameters, scores, ranks and times of all candidates.
    best_estimator_ : estimator
        The best candidate, fitted to all rows.
    best_score_ : float
        Its mean score.
    best_params_ : dict
        Its parameters.
    best_index_ : int
        Its index in ``cv_results_``.
    scorer_ : callable or dict
        The scorer, or a dict of scorers.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds taken to fit ``best_estimator_``.
    multimetric_ : bool
        Whether there are several scores.
    shared_ : array of bool, shape (candidates,)
        Which candidates shared work on every fold.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramian import SVC
    >>> from gramian.model_selection import KernelSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = KernelSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [0.01, 0.1, 1]}).fit(X, y)
    >>> search.best_params_
    {'C': 1, 'gamma': 0.1}
    >>> bool(search.shared_.all())
    True
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Fit and score every candidate on every fold, then the best one on all rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or (n, n) for ``kernel="precomputed"``
            Rows.
        y : array-like of shape (n,) or (n, k), or None, default=None
            Targets.
        **params : dict
            ``sample_weight`` and further arguments of the estimator's ``fit``, and ``groups`` for the splitter; routed
            as in scikit-learn.

        Returns
        -------
        KernelSearchCV
            The fitted search.
        """
        if getattr(self, "_skl_callbacks", None):  # callbacks are called at every fit, so nothing is shared
            self.shared_ = np.zeros(len(ParameterGrid(self.param_grid)), dtype=bool)
            return super().fit(X, y, **params)
        self._validate_params()
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        folds = list(cv.split(X, y, **routed.splitter.split))
        self.n_splits_ = cv.get_n_splits(X, y, **routed.splitter.split)
        if len(folds) != self.n_splits_:
            raise ValueError(
                f"cv.split and cv.get_n_splits return inconsistent results. Expected {self.n_splits_} splits, got "
                f"{len(folds)}"
            )
        candidates = list(ParameterGrid(self.param_grid))
        scored = self._scored(X, y, candidates, folds, scorers, routed.estimator.fit, routed.scorer.score)
        self._rank(candidates, scored, refit_metric)
        if self.refit:
            self._fit_best(X, y, routed.estimator.fit)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        return self

    def _scored(
        self, X: Any, y: Any, candidates: list[Any], folds: list[Any], scorer: Any, given: Any, scoring: Any
    ) -> list[dict[str, Any]]:
        """The results of all fits, by candidate and then by fold; fits that share work run first."""
        found: dict[tuple[int, int], dict[str, Any]] = {}

        def score(fitted: Any, i: int, k: int, rows: Rows, seconds: float) -> None:
            parts = dict(zip(("train", "test"), folds[k], strict=True))
            result = {"fit_error": None, "fit_time": seconds, "n_test_samples": len(parts["test"])}
            begin = time.perf_counter()
            for name in ("test", *(("train",) if self.return_train_score else ())):
                target = None if y is None else _safe_indexing(y, parts[name])
                means = _check_method_params(X, params=scoring, indices=parts[name])
                result[f"{name}_scores"] = _score(fitted, rows(parts[name]), target, scorer, means, self.error_score)
                result.setdefault("score_time", time.perf_counter() - begin)
            found[i, k] = result

        if not set(given) - {"sample_weight"}:
            weights = given.get("sample_weight")
            weights = None if weights is None else np.asarray(weights)
            tables = _looks_at_predictions_only(scorer)
            shared = Shared.of(self.estimator, candidates, X, y, weights, folds, self.return_train_score)
            shared.fit(candidates, self.n_jobs, score, tables=tables)
        means = {
            "scorer": scorer,
            "fit_params": given,
            "score_params": scoring,
            "return_train_score": self.return_train_score,
            "return_n_test_samples": True,
            "return_times": True,
            "error_score": self.error_score,
            "verbose": self.verbose,
        }
        everything = [(i, k) for i in range(len(candidates)) for k in range(len(folds))]
        self.shared_ = np.array([all((i, k) in found for k in range(len(folds))) for i in range(len(candidates))])
        left = [place for place in everything if place not in found]
        others = Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch)(
            delayed(_fit_and_score)(
                clone(self.estimator),
                X,
                y,
                train=folds[k][0],
                test=folds[k][1],
                parameters=candidates[i],
                split_progress=(k, len(folds)),
                candidate_progress=(i, len(candidates)),
                **means,
            )
            for i, k in left
        )
        found.update(zip(left, others, strict=True))
        return [found[place] for place in everything]

    def _rank(self, candidates: list[Any], scored: list[dict[str, Any]], metric: Any) -> None:
        """Set ``cv_results_`` and the attributes of the best candidate."""
        if not scored:
            raise ValueError("No fits were performed. Was the CV iterator empty? Were there no candidates?")
        _warn_or_raise_about_fit_failures(scored, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(scored, self.error_score)
        first = scored[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            metric = self.refit
        self.cv_results_ = self._format_results(candidates, self.n_splits_, scored)
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = self.cv_results_["params"][self.best_index_]

    def _fit_best(self, X: Any, y: Any, given: dict[str, Any]) -> None:
        begin = time.perf_counter()
        self.best_estimator_ = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        self.best_estimator_.fit(X, *(() if y is None else (y,)), **given)
        self.refit_time_ = time.perf_counter() - begin
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


def _looks_at_predictions_only(scorer: Any) -> bool:
    """Whether a scorer only passes the rows to the estimator's predict methods."""
    if isinstance(scorer, _MultimetricScorer):
        return all(_looks_at_predictions_only(each) for each in scorer._scorers.values())
    return isinstance(scorer, _BaseScorer | _PassthroughScorer)
