"""What stands beside f unpenalised: by dense bordered systems, by refits without a row, and beside SciPy."""

import pickle

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.stats import multivariate_normal

import gramian
from gramian import (
    SVC,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelInterpolator,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
    Nystroem,
    PolynomialMap,
    verify,
)
from gramian.kernels import RBF, Matern, Multiquadric, ThinPlate, White, exp

rng = np.random.default_rng(0)
n = 30
X = rng.uniform(0, 1, (n, 2))
y = np.sin(5 * X[:, 0]) + 3 * X[:, 1] + 10 + 0.1 * rng.standard_normal(n)
Y = np.column_stack([y, np.cos(3 * X[:, 1])])
w = rng.uniform(0.5, 2, n)
Z = rng.uniform(-1, 2, (7, 2))


def bordered(A, T, Y):
    """Coefficients of f and of the trend, by one dense system."""
    q = T.shape[1]
    B = np.block([[A, T], [T.T, np.zeros((q, q))]])
    found = np.linalg.solve(B, np.concatenate([Y, np.zeros((q, *Y.shape[1:]))]))
    return found[: len(A)], found[len(A) :]


def of_kind(trend, X):
    ones = np.ones((len(X), 1))
    if trend == "quadratic":
        return np.column_stack([ones, X, X**2, X[:, 0] * X[:, 1]])
    return ones if trend == "constant" else np.hstack([ones, X])


# ---- ridge ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"solver": "pcg", "tol": 1e-10}, {"alpha": "loo"}, {"store_loo": True}], ids=str
)
@pytest.mark.parametrize("kernel", [RBF(0.4), RBF(0.4) + White(0.1), "precomputed"], ids=str)
def test_a_ridge_with_an_intercept_solves_the_bordered_system(kernel, options):
    k = RBF(0.4) if kernel == "precomputed" else kernel
    rows = k(X) if kernel == "precomputed" else X
    model = KernelRidge(**{"alpha": 0.1, **options}, kernel=kernel, fit_intercept=True).fit(rows, Y, sample_weight=w)
    for j in range(2):
        alpha = np.broadcast_to(model.alpha_, 2)[j]
        dual, beta = bordered(k(X) + np.diag(alpha / w), np.ones((n, 1)), Y[:, j])
        assert np.allclose(model.dual_coef_[:, j], dual, atol=1e-5 * np.abs(dual).max())
        assert np.isclose(model.intercept_[j], beta[0], rtol=1e-7)
        signal = RBF(0.4)(X) @ dual + beta[0]
        assert np.allclose(model.predict(rows)[:, j], signal, atol=1e-6)
    assert model.certificate_.converged
    assert verify(model, rows, Y, w).converged


@pytest.mark.parametrize("options", [{"alpha": "loo"}, {"alpha": 0.1, "store_loo": True}], ids=str)
def test_leave_one_out_refits_the_intercept_too(options):
    model = KernelRidge(**options, kernel=RBF(0.4), fit_intercept=True).fit(X, y, sample_weight=w)
    for i in (0, 11, 29):
        keep = np.arange(n) != i
        without = KernelRidge(model.alpha_, kernel=RBF(0.4), fit_intercept=True).fit(X[keep], y[keep], w[keep])
        assert np.isclose(y[i] - without.predict(X[[i]])[0], model.loo_residuals_[i], rtol=1e-6)


def test_an_intercept_makes_targets_free_of_their_origin():
    model = KernelRidge(1.0, kernel=RBF(0.4), fit_intercept=True).fit(X, y)
    moved = KernelRidge(1.0, kernel=RBF(0.4), fit_intercept=True).fit(X, y + 1000.0)
    assert np.allclose(moved.predict(Z) - 1000.0, model.predict(Z), atol=1e-8)
    assert isinstance(model.intercept_, float)
    assert abs(model.dual_coef_.sum()) < 1e-10
    same = KernelMachineRegressor("squared", lam=1.0 / n, kernel=RBF(0.4), tol=1e-10).fit(X, y)
    assert np.allclose(model.predict(Z), same.predict(Z), atol=1e-6)


def test_the_default_is_scikit_learns_and_a_refit_forgets():
    model = KernelRidge(1.0, kernel=RBF(0.4), fit_intercept=True).fit(X, y)
    model.set_params(fit_intercept=False).fit(X, y)
    assert not hasattr(model, "intercept_")
    assert np.allclose(model.dual_coef_, np.linalg.solve(RBF(0.4)(X) + np.eye(n), y))


def test_verify_sees_an_intercept_that_was_moved():
    model = KernelRidge(1.0, kernel=RBF(0.4), fit_intercept=True).fit(X, y)
    model.intercept_ += 0.01
    assert not verify(model, X, y).converged


def test_a_ridge_with_a_kernel_that_needs_a_constant():
    k = Multiquadric(0.3)
    model = KernelRidge(0.1, kernel=k, fit_intercept=True).fit(X, y)
    dual, beta = bordered(k(X) + 0.1 * np.eye(n), np.ones((n, 1)), y)
    assert np.allclose(model.dual_coef_, dual)
    assert np.isclose(model.intercept_, beta[0])
    assert model.solver_.name == "cholesky"
    assert verify(model, X, y).converged


# ---- processes ------------------------------------------------------------------------------------------------------

CASES = [
    (1.0 * RBF(0.4), "constant", "constant"),
    (1.0 * RBF(0.4) + White(0.02), "linear", "linear"),
    (1.0 * Matern(0.4), PolynomialMap(2), "quadratic"),
    (0.5 * ThinPlate(), None, "linear"),
    (1.0 * Multiquadric(0.5), None, "constant"),
    (RBF(0.4), lambda X: np.column_stack([np.ones(len(X)), X]), "linear"),
]


@pytest.mark.parametrize(("kernel", "trend", "kind"), CASES, ids=lambda v: getattr(v, "__name__", repr(v))[:30])
def test_universal_kriging_by_dense_algebra(kernel, trend, kind):
    model = GaussianProcessRegressor(kernel, trend=trend, alpha=0.01, optimizer=None).fit(X, Y)
    white = 0.02 if isinstance(getattr(kernel, "right", None), White) else 0.0
    signal = kernel.left if white else kernel
    A, T, t = signal(X) + (0.01 + white) * np.eye(n), of_kind(kind, X), of_kind(kind, Z)
    q = T.shape[1]
    dual, beta = bordered(A, T, Y)
    mean, cov = model.predict(Z, return_cov=True)
    assert np.allclose(mean, signal(Z, X) @ dual + t @ beta, atol=1e-9)
    both = np.hstack([signal(Z, X), t])
    whole = np.block([[A, T], [T.T, np.zeros((q, q))]])
    expected = signal(Z) + white * np.eye(7) - both @ np.linalg.solve(whole, both.T)
    assert np.allclose(cov[..., 0], expected, atol=1e-9)
    assert np.allclose(model.predict(Z, return_std=True)[1][:, 0], np.sqrt(np.diag(expected)), atol=1e-9)
    # The evidence is the density of contrasts.
    N = np.linalg.qr(T, mode="complete")[0][:, q:]
    density = sum(multivariate_normal.logpdf(N.T @ c, np.zeros(n - q), N.T @ A @ N) for c in Y.T)
    assert np.isclose(model.log_marginal_likelihood_value_, density)
    assert verify(model, X, Y).converged


def test_a_trend_is_the_limit_of_a_prior_that_knows_nothing_of_it():
    beside = GaussianProcessRegressor(RBF(0.4), trend="constant", alpha=0.01, optimizer=None).fit(X, y)
    broad = GaussianProcessRegressor(RBF(0.4) + 1e6, alpha=0.01, optimizer=None).fit(X, y)
    for own, limit in zip(beside.predict(Z, return_std=True), broad.predict(Z, return_std=True), strict=True):
        assert np.allclose(own, limit, rtol=1e-4)
    plain = GaussianProcessRegressor(RBF(0.4), alpha=0.01, optimizer=None).fit(X, y)
    assert np.all(beside.predict(Z, return_std=True)[1] >= plain.predict(Z, return_std=True)[1] - 1e-9)


@pytest.mark.parametrize(("kernel", "trend"), [(1.0 * RBF(0.4), "linear"), (1.0 * ThinPlate(), None)], ids=str)
def test_hyperparameters_are_learned_from_contrasts(kernel, trend):
    model = GaussianProcessRegressor(kernel, trend=trend, noise="learn", random_state=0).fit(X, y)
    assert model.certificate_.converged
    assert verify(model, X, y).converged
    theta = model.kernel_.theta + 0.2
    _value, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    for i, step in enumerate(1e-5 * np.eye(theta.size)):
        ahead, behind = (model.log_marginal_likelihood(theta + s) for s in (step, -step))
        assert np.isclose((ahead - behind) / 2e-5, slope[i], rtol=1e-5, atol=1e-6)
    # Adding what the trend holds changes no parameter.
    moved = GaussianProcessRegressor(kernel, trend=trend, noise="learn", random_state=0).fit(X, y + 100 * X[:, 0] - 50)
    assert np.allclose(moved.kernel_.theta, model.kernel_.theta, atol=1e-2)
    assert np.allclose(moved.predict(Z) - 100 * Z[:, 0] + 50, model.predict(Z), atol=1e-2)


def test_normalised_targets_noise_by_row_files_and_pickles(tmp_path):
    model = GaussianProcessRegressor(Matern(0.4), trend="linear", alpha=0.01 * w, normalize_y=True).fit(X, y)
    assert verify(model, X, y).converged
    gramian.save(model, tmp_path / "model")
    for again in (gramian.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(Z, return_std=True), model.predict(Z, return_std=True))
        assert verify(again, X, y).converged


# ---- interpolation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "name", "degree"), [(ThinPlate(), "thin_plate_spline", 1), (Multiquadric(0.5), "multiquadric", 0)]
)
def test_radial_basis_functions_are_scipys(kernel, name, degree):
    theirs = RBFInterpolator(X, y, kernel=name, epsilon=2.0, degree=degree)
    ours = KernelInterpolator(kernel).fit(X, y)
    assert np.allclose(ours.predict(Z), theirs(Z), atol=1e-8)
    assert ours.certificate_.converged
    assert verify(ours, X, y).converged
    process = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    assert np.allclose(process.predict(Z), ours.predict(Z), atol=1e-7)
    assert np.all(process.predict(X, return_std=True)[1] < 1e-5)


@pytest.mark.parametrize(("order", "d"), [(1, 1), (2, 1), (2, 2), (2, 3), (3, 2), (3, 4)])
def test_thin_plates_are_positive_definite_beside_their_polynomials_and_reproduce_them(order, d):
    points = rng.standard_normal((25, d))
    M = PolynomialMap(degree=order - 1).fit_transform(points) if order > 1 else np.ones((25, 1))
    N = np.linalg.qr(M, mode="complete")[0][:, M.shape[1] :]
    assert np.linalg.eigvalsh(N.T @ ThinPlate(order)(points) @ N)[0] > 0
    linear, offset = rng.standard_normal(d), 0.7
    model = KernelInterpolator(ThinPlate(order)).fit(
        points, points @ linear + offset if order > 1 else np.full(25, offset)
    )
    new = rng.standard_normal((9, d))
    assert np.allclose(model.predict(new), new @ linear + offset if order > 1 else offset, atol=1e-6)
    assert model.certificate_.converged


def test_a_thin_plate_bends_least():
    """The cubic spline of one input: no other curve through the points has a smaller ∫ f''²."""
    points = np.sort(rng.uniform(0, 1, 8))
    values = rng.standard_normal(8)
    model = KernelInterpolator(ThinPlate(2)).fit(points[:, None], values)
    grid = np.linspace(points[0], points[-1], 4001)

    def bending(f):
        return np.trapezoid(np.gradient(np.gradient(f, grid), grid)[5:-5] ** 2, grid[5:-5])

    from scipy.interpolate import CubicSpline

    natural = CubicSpline(points, values, bc_type="natural")
    assert np.allclose(model.predict(grid[:, None]), natural(grid), atol=1e-7)
    bump = np.prod([np.sin(np.pi * (grid - p)) for p in points], axis=0)  # zero at every point
    assert bending(model.predict(grid[:, None]) + bump) > bending(model.predict(grid[:, None]))


def test_the_interpolator_takes_other_trends_and_tells_their_coefficients(tmp_path):
    model = KernelInterpolator(RBF(0.3), trend="linear").fit(X, Y)
    _dual, beta = bordered(RBF(0.3)(X), of_kind("linear", X), Y)
    assert np.allclose(model.trend_coef_, beta, rtol=1e-4)
    assert np.allclose(model.predict(X), Y, atol=1e-6)
    assert model.trend_ == "linear"
    gramian.save(model, tmp_path / "model")
    assert np.array_equal(gramian.load(tmp_path / "model").predict(Z), model.predict(Z))
    assert KernelInterpolator(RBF(0.3)).fit(X, Y).trend_ is None
    with pytest.raises(ValueError, match="without approximation or trend"):
        model.function_[0].power(Z)


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        SVC(kernel=ThinPlate()),
        KernelMachineRegressor(kernel=Multiquadric()),
        KernelRidge(kernel=ThinPlate(), fit_intercept=True),
        KernelRidge(kernel=Multiquadric()),
        KernelRidge(kernel=Multiquadric(), fit_intercept=True, solver="pcg"),
        KernelPCA(kernel=2.0 * ThinPlate() + RBF()),
        Nystroem(kernel=Multiquadric()),
        FourierFeatures(kernel=Multiquadric()),
        GaussianProcessRegressor(ThinPlate(), approximation=Nystroem()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_conditionally_positive_definite_kernels_are_refused_elsewhere(model):
    with pytest.raises(ValueError, match="conditionally positive definite and needs"):
        model.fit(X, (y > 11).astype(float))


@pytest.mark.parametrize(
    ("kernel", "trend"),
    [
        (ThinPlate().on(0, 1) + RBF(0.5).on(2), "linear"),
        (2.0 * ThinPlate().metric([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), "linear"),
        (Multiquadric().metric([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), "constant"),
    ],
    ids=str,
)
def test_they_may_take_columns_and_linear_maps_of_the_inputs(kernel, trend):
    rows, new = rng.uniform(0, 1, (n, 3)), rng.uniform(0, 1, (7, 3))
    model = KernelInterpolator(kernel).fit(rows, y)
    dual, beta = bordered(kernel(rows), of_kind(trend, rows), y)
    assert model.trend_ == trend
    assert np.allclose(model.predict(new), kernel(new, rows) @ dual + of_kind(trend, new) @ beta, atol=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [ThinPlate() * RBF(), exp(Multiquadric()), ThinPlate() ** 2, ThinPlate().compose(np.sin)],
    ids=str,
)
def test_products_of_them_are_no_kernels(kernel):
    with pytest.raises(ValueError, match="is not a kernel"):
        KernelInterpolator(kernel).fit(X, y)


def test_a_trend_that_is_not_identified_or_too_small_is_refused():
    constant = np.column_stack([X, np.ones(n)])
    for model in (KernelInterpolator(RBF(0.3), trend="linear"), GaussianProcessRegressor(RBF(0.3), trend="linear")):
        with pytest.raises(ValueError, match="not identified: its 4 columns at 30 rows have rank 3"):
            model.fit(constant, y)
    with pytest.raises(ValueError, match="not identified: its 3 columns at 2 rows"):
        KernelInterpolator(RBF(0.3), trend="linear").fit(X[:2], y[:2])
    with pytest.raises(ValueError, match="trend='linear'"):
        KernelInterpolator(ThinPlate(), trend="constant").fit(X, y)
    with pytest.raises(ValueError, match=r"PolynomialMap\(2\)"):
        KernelInterpolator(ThinPlate(3), trend="linear").fit(X, y)
    with pytest.raises(ValueError, match="rows of numbers, not objects"):
        KernelInterpolator("precomputed", trend="linear").fit(RBF(0.3)(X), y)
    with pytest.raises(ValueError, match="one row of numbers for each of 30 rows"):
        KernelInterpolator(RBF(0.3), trend=lambda X: np.ones((3, 1))).fit(X, y)
    with pytest.raises(ValueError, match="needs fewer than 4 inputs, got 5; use order=3"):
        ThinPlate(2)(np.zeros((3, 5)))


def test_what_cannot_be_combined_with_a_trend_says_so():
    with pytest.raises(ValueError, match="KernelMachineRegressor"):
        KernelRidge(fit_intercept=True, approximation=Nystroem()).fit(X, y)
    with pytest.raises(ValueError, match="no approximation"):
        GaussianProcessRegressor(trend="linear", approximation=Nystroem()).fit(X, y)
    with pytest.raises(ValueError, match="a trend needs the n x n matrix"):
        GaussianProcessRegressor(RBF(0.3), trend="linear", solver="pcg", alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="order must be a whole number"):
        ThinPlate(0)
