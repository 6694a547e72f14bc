"""What all support vector machines take and refuse, as scikit-learn's do."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from gramian import SVC, SVR, NuSVC, NuSVR, Nystroem, OneClassSVM
from gramian.kernels import RBF
from gramian.verification import verify

X = np.array([[-2.0, -1.0], [-1.0, -1.0], [-1.0, -2.0], [1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
y = np.array([1, 1, 1, 2, 2, 2])
MACHINES = [SVC, NuSVC, SVR, NuSVR, OneClassSVM]
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr"]


@pytest.mark.parametrize("Machine", MACHINES)
def test_negative_weights_leave_rows_out(Machine):
    weights = np.array([1.0, -0.5, 1.0, 1.0, 1.0, 2.0])
    with pytest.warns(UserWarning, match="Rows of negative weight are left out, 1 of"):
        ours = Machine(kernel="linear").fit(X, y, sample_weight=weights)
    zero = Machine(kernel="linear").fit(X, y, sample_weight=np.maximum(weights, 0.0))
    np.testing.assert_array_equal(ours.dual_coef_, zero.dual_coef_)
    assert 1 not in ours.support_
    assert verify(ours, X, y, sample_weight=weights).converged


@pytest.mark.parametrize("Machine", MACHINES)
@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_weights_that_leave_no_row_are_refused(Machine, weight):
    with pytest.raises(ValueError, match=r"^Invalid input - all samples have zero or negative weights"):
        Machine().fit(X, y, sample_weight=np.full(6, weight))


@pytest.mark.parametrize(
    ("Machine", "message"),
    [(SVC, "^Invalid input - all samples with positive weights belong to the same class"), (NuSVC, "^specified nu is")],
)
def test_weights_that_leave_one_class_are_refused(Machine, message):
    with pytest.raises(ValueError, match=message):
        Machine().fit(X, y, sample_weight=[0, 0, 0, 1, 1, 1])


def test_a_fit_that_max_iter_ends_says_so_in_the_words_of_scikit_learn():
    rng = np.random.default_rng(0)
    with pytest.warns(ConvergenceWarning, match=r"^Solver terminated early \(max_iter=2\).  Consider .*NOT converged"):
        SVC(max_iter=2).fit(rng.standard_normal((40, 2)), rng.integers(0, 2, 40))


def test_sparse_precomputed_is_refused():
    with pytest.raises(TypeError, match=r"^Sparse precomputed"):
        SVC(kernel="precomputed").fit(sp.csr_array(X @ X.T), y)


def test_break_ties_is_checked_before_the_rows():
    machine = SVC(break_ties=True, decision_function_shape="ovo").fit(X, y)
    with pytest.raises(ValueError, match="break_ties must be False"):
        machine.predict(y)


def test_gamma_as_a_number_is_kept():
    assert SVC().fit([[0.0], [1.0]], [0, 1])._gamma == pytest.approx(4.0)
    assert SVR(gamma="auto").fit(X, y)._gamma == 0.5
    assert OneClassSVM(kernel="linear").fit(X)._gamma == 0.0
    with pytest.raises(ValueError, match=r"^The dual coefficients or intercepts are not finite: gamma='scale'"):
        SVC().fit(1e300 * X, y)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("container", ["array", "matrix"])
def test_every_sparse_format_gives_the_dense_machine(form, container):
    rows = getattr(sp, f"{form}_{container}")(X)
    for kernel in ("rbf", lambda a, b: a @ b.T):
        ours, dense = (SVC(kernel=kernel).fit(Z, y) for Z in (rows, X))
        np.testing.assert_allclose(ours.dual_coef_.toarray(), dense.dual_coef_, rtol=1e-12)
        np.testing.assert_allclose(ours.decision_function(rows), dense.decision_function(X), rtol=1e-12)


def test_sparse_rows_beyond_the_small_give_the_dense_machine(monkeypatch):
    monkeypatch.setattr("gramian.estimators.svm.expansion.SMALL_CELLS", 0)
    ours, dense = (OneClassSVM(tol=1e-9).fit(Z) for Z in (sp.csr_array(X), X))
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X), atol=1e-7)


def test_a_function_of_matrices_may_compare_strings():
    def common(a, b):
        return np.array([[float(len(set(s) & set(t))) for t in b] for s in a])

    words = ["spam", "ham", "eggs", "spams"]
    by_words = SVR(kernel=common).fit(words, [1.0, 2.0, 3.0, 4.0])
    K = common(words, words)
    by_matrix = SVR(kernel="precomputed").fit(K, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(by_words.predict(words), by_matrix.predict(K), rtol=1e-9)


def test_a_function_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"must have shape \(\d, \d\), got \(1, 1\)"):
        SVR(kernel=lambda a, b: np.ones((1, 1))).fit(X, y)


def test_an_altered_machine_is_refused():
    machine = SVC(kernel="linear").fit(X, y)
    machine._n_support[0] = 1000
    with pytest.raises(ValueError, match="internal representation of SVC was altered"):
        machine.predict(X)


@pytest.mark.parametrize("unit", [0.1, 1.0, 1e3])
@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=25)])
def test_infinite_C_of_a_regression_puts_all_targets_in_the_tube(unit, approximation):
    Z = np.linspace(0.0, 6.0, 40)[:, None]
    target = unit * np.sin(Z[:, 0])
    options = {"epsilon": 0.1 * unit, "gamma": 0.3, "tol": 1e-5, "approximation": approximation}
    machine = SVR(C=np.inf, **options).fit(Z, target, sample_weight=np.arange(1.0, 41.0))
    assert np.abs(machine.predict(Z) - target).max() <= 0.1 * unit + 1e-4
    assert verify(machine, Z, target).converged
    soft = SVR(C=1e3 * unit, **options).fit(Z, target)
    np.testing.assert_allclose(soft.predict(Z), machine.predict(Z), atol=1e-4)


def test_infinite_C_without_a_solution_is_refused():
    Z = np.linspace(0.0, 6.0, 40)[:, None]
    with pytest.raises(ValueError, match="C=inf has no solution; rows in conflict are"):
        SVR(C=np.inf, kernel="linear").fit(Z, np.sin(Z[:, 0]))
    with pytest.raises(ValueError, match="C=inf has no solution"):
        SVR(C=np.inf).fit([[0.0], [0.0]], [0.0, 1.0])


def test_private_coefficients_may_be_set():
    machine = SVC(kernel="linear").fit(X, y)
    np.testing.assert_array_equal(machine._dual_coef_, -machine.dual_coef_)
    machine._dual_coef_ = np.zeros_like(machine.dual_coef_)
    np.testing.assert_allclose(machine.decision_function(X), machine.intercept_[0])


def test_nu_is_raised_for_pairs_that_it_leaves_no_margin():
    Z, labels = make_classification(n_classes=4, n_informative=4, random_state=42)
    with pytest.warns(UserWarning, match=r"nu=0.5 leaves 1 pairs of classes no margin .* raised for them \(to 0.73"):
        machine = NuSVC(kernel="linear").fit(Z, labels)
    assert np.count_nonzero(machine.nu_ > 0.5) == 1
    assert verify(machine, Z, labels).converged
    with pytest.raises(ValueError, match="no margin with this kernel"):
        NuSVC(kernel="linear").fit(Z[np.isin(labels, (0, 2))], labels[np.isin(labels, (0, 2))])


def test_a_float32_matrix_that_is_given_counts_as_exact(rng):
    A = rng.standard_normal((100, 3))
    labels = np.where(A[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1, -1)
    K = np.exp(-0.3 * np.sum((A[:, None] - A) ** 2, axis=2)).astype(np.float32)
    narrow, wide = (SVC(kernel="precomputed", tol=1e-6).fit(given, labels) for given in (K, K.astype(np.float64)))
    assert narrow.certificate_.converged
    assert narrow.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize("n", [50, 300, 2100])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_an_origin_inside_is_certified_at_any_tolerance(n, scale):
    rows = scale * np.random.default_rng(n).standard_normal((n, 2))
    values = []
    for tol in (1e-3, 1e-7, 1e-9):
        machine = OneClassSVM(kernel="linear", tol=tol, nu=0.2).fit(rows)
        assert machine.certificate_.converged
        assert verify(machine, rows).converged
        values.append(machine.certificate_.primal / (scale * n) ** 2)
    assert max(values[1:]) <= values[0] + 1e-15


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e-40, 1e60])
@pytest.mark.parametrize("machine", [SVC(), SVR(), NuSVC(nu=0.3), NuSVR(nu=0.3), OneClassSVM(nu=0.2)])
def test_the_scale_of_the_kernel_makes_no_difference(machine, scale):
    """Nor for working sets, which are in single precision where it suffices: 2,100 rows have some."""
    rows = np.random.default_rng(0).standard_normal((2100, 3))
    y = None if isinstance(machine, OneClassSVM) else np.sin(2.0 * rows[:, 0])
    y = np.sign(y) if isinstance(machine, SVC | NuSVC) else y
    plain = clone(machine).set_params(kernel=RBF(1.0)).fit(rows, y)
    scaled = clone(machine).set_params(kernel=scale * RBF(1.0))
    if hasattr(machine, "C"):
        scaled.set_params(C=1.0 / scale)
    scaled.fit(rows, y)
    assert scaled.certificate_.converged
    assert scaled.certificate_.iterations <= 2 * plain.certificate_.iterations
    values = [
        model.decision_function(rows) if y is None or "C" in type(model).__name__ else model.predict(rows)
        for model in (plain, scaled)
    ]
    unit = scale if y is None else 1.0
    np.testing.assert_allclose(values[1] / unit, values[0], atol=1e-2 * np.abs(values[0]).max())


def test_a_fit_ends_where_pair_steps_get_nowhere(monkeypatch):
    monkeypatch.setattr("gramian.solvers.svm.smo.LAST_PATIENCE", 10)
    rows = np.random.default_rng(0).standard_normal((2100, 3))
    with pytest.warns(ConvergenceWarning, match="too slowly; lower C"):
        machine = SVC(C=1e9).fit(rows, rows[:, 0] + np.random.default_rng(1).standard_normal(2100) > 0)
    assert not machine.certificate_.converged
    assert machine.certificate_.iterations < 100 * 2100


def test_rows_beyond_float32_stay_in_double_precision():
    X = np.random.default_rng(0).standard_normal((2100, 3)) * (1.0, 1.0, 1e39)
    machine = SVC(kernel="rbf", gamma=1e-78, max_iter=100_000).fit(X, X[:, 2] > 0)
    assert machine.certificate_.converged
    assert machine.score(X, X[:, 2] > 0) > 0.99
