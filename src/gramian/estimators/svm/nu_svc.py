"""Support vector classification by ν: NuSVC."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from gramian.estimators.svm.base import Vector
from gramian.estimators.svm.svc import EVERYBODY, Classes, Classifier, Members, Pair, Pairs
from gramian.solvers.svm import tasks as svm_tasks

__all__ = ["NuSVC"]


@dataclass(eq=False, repr=False, kw_only=True)
class NuSVC(Classifier):
    """Support vector classification with ν in the place of C: at most a share ν of the rows are margin errors.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of margin errors, lower bound on the share of support vectors.
    kernel : Kernel, str or callable, default="rbf"
        A gramian kernel, a name that scikit-learn knows, ``"precomputed"``, or a function of two matrices.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the named kernels: ``"scale"`` is 1 / (d var(X)), ``"auto"`` is 1 / d.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    shrinking : bool, default=True
        Whether settled variables may rest for a while when the kernel rows do not fit the cache.
    probability : bool or "consistent", default=False
        Whether to learn probabilities, by Platt's sigmoid on stratified folds. With ``"consistent"``, ``predict`` is
        always the class of the largest probability; with ``True`` the two may differ, as in scikit-learn.
    tol : float, default=1e-3
        Bound on the worst KKT violation and on the relative duality gap.
    cache_size : float, default=200
        Megabytes for kernel rows, at most; kernels that are cheap to compute again take 256.
    class_weight : dict, "balanced" or None, default=None
        Factors, by class, on the C that ν stands for; ``"balanced"`` gives every class the same total.
    verbose : bool, default=False
        Whether to show progress: steps, duality gap and violation.
    max_iter : int, default=-1
        Pair steps allowed for each pair of classes; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        One decision value per class, or per pair of classes.
    break_ties : bool, default=False
        Whether votes that tie are decided by the "ovr" decision values.
    random_state : int, RandomState or None, default=None
        Source of the folds for probabilities.
    approximation : map or None, default=None
        ``Nystroem``, ``FourierFeatures`` or another map ψ: the machine is then the exact one of the kernel
        ``<ψ(x), ψ(z)>``, and so is its certificate. The kernel is set here, not on the map.
    max_time : float or None, default=None
        Seconds allowed.
    n_jobs : int or None, default=None
        Threads; by default all cores.
    memory : int, str or None, default=None
        Bytes for tiles of the kernel at predict.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The labels.
    class_weight_ : array of shape (k,)
        Factors on the C that ν stands for.
    support_ : array of shape (s,)
        Which training rows are support vectors, class by class.
    support_vectors_ : array or CSR of shape (s, d)
        Those rows; empty for a precomputed kernel and with a map, which predicts without them.
    dual_coef_ : array or CSR of shape (k - 1, s)
        Their coefficients, as scikit-learn lays them out.
    intercept_ : array of shape (k (k - 1) / 2,)
        The biases.
    C_ : array of shape (k (k - 1) / 2,)
        The C that ν stands for: the coefficient of a row is at most C times its weight and that of its class.
    certificate_ : Certificate
        Primal and dual value, relative gap, worst KKT violation; of the worst pair of classes.
    certificates_ : list of Certificate
        Of every pair.
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row; the gravest over the pairs.
    margin_ : float or array of shape (k (k - 1) / 2,)
        1/‖w‖, the distance from boundary to margin in feature space.
    n_iter_ : array of shape (k (k - 1) / 2,)
        Pair steps taken.
    fit_status_ : int
        0 where the certificate says converged, else 1.
    shape_fit_ : tuple of int
        Shape of the training rows.
    approximation_ : estimator
        The fitted map, where there is one.
    coef_ : array of shape (k (k - 1) / 2, m)
        Weights of the inputs for ``kernel="linear"``; of the map's features where there is one.
    probA_, probB_ : array of shape (k (k - 1) / 2,)
        The sigmoids; empty without probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import NuSVC
    >>> X = np.array([[-1.0, -1], [-2, -1], [1, 1], [2, 1]])
    >>> NuSVC().fit(X, [1, 1, 2, 2]).predict([[-0.8, -1]])
    array([1])
    """

    nu: float = 0.5

    _parameter_constraints = {  # noqa: RUF012
        **Classifier._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def _largest_nu(self, pairs: Pairs, pair: Classes) -> float:
        return svm_tasks.largest_nu(pairs.signs(pair), pairs.of(pair, pairs.training.weight))

    def _check_feasible(self, pairs: Pairs) -> None:
        limits = {pair: self._largest_nu(pairs, pair) for pair in pairs.classes}
        tight = {pair: limit for pair, limit in limits.items() if self.nu > limit * (1 + 1e-12)}
        if not tight:
            return
        (a, b), limit = min(tight.items(), key=lambda item: item[1])
        labels = self.classes_.tolist()
        what = f"with the sizes of classes {labels[a]!r} and {labels[b]!r} nu must be at most {_below(limit)}"
        if len(tight) == len(limits):
            raise ValueError(f"specified nu is infeasible: {what}, got {self.nu:.4g}; lower it.")
        warnings.warn(
            f"nu={self.nu:.4g} is infeasible for some pairs of classes ({what}), and lowered there.", stacklevel=4
        )

    def _machine(
        self, pairs: Pairs, pair: Classes, members: Members = EVERYBODY, start: Vector | None = None, **options: Any
    ) -> Pair:
        """Find the C that ν stands for; class weights, where there are any, then multiply that C."""
        found = self._with_nu(pairs, pair, self.nu, members, **options)
        if not found.separates:
            return found
        price = 1.0 / found.scale
        if not np.array_equal(pairs.weight, pairs.training.weight):
            C = pairs.of(pair, pairs.weight)[members] * price
            task = svm_tasks.classification(pairs.signs(pair)[members], C, start)
            found = pairs.solve(pair, task, members, **options)
        return replace(found, price=price)

    def _keep_machines(self, X: Any, pairs: Pairs, machines: list[Pair]) -> None:
        super()._keep_machines(X, pairs, machines)
        self.C_ = np.array([machine.price for machine in machines])

    def _with_nu(self, pairs: Pairs, pair: Classes, nu: float, members: Members = EVERYBODY, **options: Any) -> Pair:
        weight = pairs.of(pair, pairs.training.weight)[members]
        task = svm_tasks.nu_classification(pairs.signs(pair)[members], weight, nu)
        return pairs.solve(pair, task, members, **options)

    def _check_margin(self, machine: Pair, pairs: Pairs) -> None:
        if machine.separates:
            return
        a, b = (self.classes_.tolist()[c] for c in machine.classes)
        enough = self._enough(pairs, machine.classes)
        raise ValueError(
            f"nu={self.nu:.4g} leaves classes {a!r} and {b!r} no margin with this kernel: their reduced hulls meet; "
            + (f"raise nu, which makes them smaller ({enough} is enough), or " if enough else "no larger nu helps; ")
            + "use a kernel that tells the classes apart."
        )

    def _enough(self, pairs: Pairs, pair: Classes) -> str | None:
        """A larger nu that leaves a margin, where one is found."""
        limit = self._largest_nu(pairs, pair)
        for share in (0.25, 0.5, 0.75, 1.0):
            nu = _below(share * limit)
            if float(nu) > self.nu and self._with_nu(pairs, pair, float(nu), **self._solver_options()).separates:
                return nu
        return None


def _below(limit: float) -> str:
    """Four digits of a number that is not above the limit."""
    return f"{limit if float(f'{limit:.4g}') <= limit else 0.999 * limit:.4g}"
