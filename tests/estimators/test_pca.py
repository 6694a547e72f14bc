"""KernelPCA: scikit-learn's numbers, every solver, bounded memory, maps, the way back."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import KernelPCA as Peer
from sklearn.exceptions import ConvergenceWarning, NotFittedError, PositiveSpectrumWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import verify
from gramian.estimators.pca import KernelPCA
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Linear, Polynomial
from gramian.solvers.spectral.preimage import fixed_point
from peak import peak_bytes


@pytest.mark.filterwarnings("ignore:n_components = .* is more than")
@parametrize_with_checks(
    [
        KernelPCA(),
        KernelPCA(2, kernel="rbf", center=False, fit_inverse_transform=True),
        KernelPCA(2, kernel="rbf", fit_inverse_transform=True, inverse="fixed-point"),
        KernelPCA(2, kernel="rbf", approximation=FourierFeatures()),
        KernelPCA(2, approximation=PolynomialMap(2)),
        KernelPCA(2, kernel="rbf", approximation=Nystroem(n_components=5)),
    ]
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def data(n=150, d=4):
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, d)), rng.standard_normal((9, d))


@pytest.mark.parametrize("n_components", [None, 3, 1000])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian", lambda x, z: float(x @ z) ** 2])
def test_is_scikit_learns(kernel, n_components):
    X, Z = data(60)
    options = {"n_components": n_components, "kernel": kernel, "eigen_solver": "dense"}
    ours = KernelPCA(**options).fit(X)
    if kernel == "laplacian":
        options["kernel"] = lambda x, z: np.exp(-np.abs(x - z).sum() / 4)
    peer = Peer(**options).fit(X)
    assert ours.eigenvalues_.shape == peer.eigenvalues_.shape
    np.testing.assert_allclose(ours.eigenvalues_, peer.eigenvalues_, atol=1e-9)
    few = 3
    np.testing.assert_allclose(ours.eigenvectors_[:, :few], peer.eigenvectors_[:, :few], atol=1e-8)
    np.testing.assert_allclose(ours.transform(Z)[:, :few], peer.transform(Z)[:, :few], atol=1e-8)
    assert ours.certificate_.converged


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos", "arpack", "randomized"])
@pytest.mark.parametrize("center", [True, False])
def test_solvers_find_the_components(eigen_solver, center):
    X, Z = data()
    K = RBF(1.5)(X)
    J = np.eye(150) - center / 150
    values = np.linalg.eigvalsh(J @ K @ J)[::-1]
    model = KernelPCA(
        4, kernel=RBF(1.5), eigen_solver=eigen_solver, center=center, iterated_power=30, random_state=0
    ).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, values[:4], rtol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_, values[:4] / values.sum(), rtol=1e-6)
    residual = J @ K @ J @ model.eigenvectors_ - model.eigenvectors_ * model.eigenvalues_
    assert np.linalg.norm(residual, axis=0).max() < 1e-4
    # The projection by hand, of centred feature vectors.
    M = RBF(1.5)(Z, X)
    M = M - center * (M.mean(axis=1, keepdims=True) + K.mean(axis=0) - K.mean())
    np.testing.assert_allclose(model.transform(Z), M @ model.eigenvectors_ / np.sqrt(model.eigenvalues_), atol=1e-5)
    np.testing.assert_allclose(model.transform(X), model.fit_transform(X), atol=1e-4)
    largest = np.abs(model.eigenvectors_).argmax(axis=0)
    assert np.all(model.eigenvectors_[largest, range(4)] > 0)


def test_lanczos_sees_a_spectrum_that_single_precision_rounds_to_zero(rng):
    X = rng.standard_normal((30, 3))
    options = {"kernel": "rbf", "gamma": 1e-9, "random_state": 0}
    dense, lanczos = (KernelPCA(2, eigen_solver=solver, **options).fit(X) for solver in ("dense", "lanczos"))
    np.testing.assert_allclose(lanczos.eigenvalues_, dense.eigenvalues_, rtol=1e-6)
    assert lanczos.certificate_.converged
    lanczos.eigenvalues_ = np.zeros(2)
    assert not verify(lanczos, X).converged


def test_lanczos_reaches_what_float32_cannot(rng):
    X = rng.standard_normal((400, 3))
    tight = KernelPCA(10, kernel=RBF(3.0), eigen_solver="lanczos", tol=1e-11, random_state=0).fit(X)
    loose = KernelPCA(10, kernel=RBF(3.0), eigen_solver="lanczos", tol=1e-6, random_state=0).fit(X)
    assert tight.certificate_.violation <= 1e-11
    assert loose.certificate_.violation <= 1e-6
    np.testing.assert_allclose(loose.eigenvalues_, tight.eigenvalues_, rtol=1e-5)


def test_sparse_float32_and_precomputed_agree():
    X, Z = data()
    exact = KernelPCA(3, kernel="rbf").fit(X)
    sparse = KernelPCA(3, kernel="rbf").fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.transform(sp.csr_array(Z)), exact.transform(Z), atol=1e-9)
    single = KernelPCA(3, kernel="rbf").fit(X.astype(np.float32)).transform(Z.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact.transform(Z), atol=1e-4)
    for solver in ("dense", "lanczos"):
        given = KernelPCA(3, kernel="precomputed", eigen_solver=solver, tol=1e-9).fit(RBF(np.sqrt(2.0))(X))
        np.testing.assert_allclose(given.transform(RBF(np.sqrt(2.0))(Z, X)), exact.transform(Z), atol=1e-6)


def test_zero_eigenvalues():
    X = np.outer(np.arange(6.0), [1.0, 2.0])
    assert KernelPCA().fit(X).eigenvalues_.shape == (1,)
    assert KernelPCA(3, remove_zero_eig=True).fit(X).eigenvalues_.shape == (1,)
    model = KernelPCA(3).fit(X)
    assert model.eigenvalues_[1:].tolist() == [0.0, 0.0]
    assert np.all(model.transform(X)[:, 1:] == 0.0)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("n_components", [None, 60, 40])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_small_eigenvalues_are_kept_however_many_are_asked_for(n_components, seed):
    X = np.random.default_rng(seed).standard_normal((60, 2))
    model = KernelPCA(n_components, kernel="rbf", gamma=0.02, remove_zero_eig=True).fit(X)
    theirs = Peer(60, kernel="rbf", gamma=0.02, eigen_solver="dense", remove_zero_eig=True).fit(X).eigenvalues_
    assert theirs[-1] < 1e-11 * theirs[0]
    np.testing.assert_allclose(model.eigenvalues_, theirs, rtol=0.01)
    assert model.certificate_.converged
    assert verify(model, X).converged
    model.eigenvalues_, model.eigenvectors_ = model.eigenvalues_[:-4], model.eigenvectors_[:, :-4]
    assert "is missing" in verify(model, X).message


def test_what_is_no_kernel_warns():
    K = np.diag([3.0, 2.0, -1.0, -2.5])
    with pytest.warns(PositiveSpectrumWarning, match="not positive semi-definite on these rows"):
        model = KernelPCA(kernel=lambda a, b: K[int(a[0]), int(b[0])], center=False).fit(np.arange(4.0)[:, None])
    np.testing.assert_allclose(model.eigenvalues_, [3.0, 2.0])
    with pytest.warns(PositiveSpectrumWarning, match="not positive semi-definite on these rows"):
        model = KernelPCA(2, kernel="precomputed", center=False).fit(K)
    np.testing.assert_allclose(model.eigenvalues_, [3.0, 2.0])
    with pytest.raises(ValueError, match=r"^There are significant negative eigenvalues"):
        KernelPCA(3, kernel="precomputed", center=False).fit(K)
    with pytest.raises(ValueError, match=r"^There are significant negative eigenvalues"):
        KernelPCA(2, kernel="precomputed", center=False, eigen_solver="randomized", random_state=0).fit(K)


@pytest.mark.parametrize("center", [True, False])
def test_an_asymmetric_matrix_is_read_as_scikit_learn_reads_it(center):
    rng = np.random.default_rng(0)
    A, new = rng.standard_normal((20, 5)), rng.standard_normal((3, 20))
    K = A @ A.T + 0.01 * rng.standard_normal((20, 20))
    with (
        pytest.warns(UserWarning, match="not symmetric.* its lower half is taken"),
        pytest.warns(PositiveSpectrumWarning, match="has an eigenvalue of -"),
    ):
        ours = KernelPCA(3, kernel="precomputed", center=center).fit(K)
    if center:
        peer = Peer(3, kernel="precomputed").fit(K)
        np.testing.assert_allclose(np.abs(ours.transform(new)), np.abs(peer.transform(new)), rtol=1e-9)
        np.testing.assert_allclose(ours.eigenvalues_, peer.eigenvalues_, rtol=1e-12)
    else:
        lower = np.linalg.eigvalsh(K)[::-1][:3]
        np.testing.assert_allclose(ours.eigenvalues_, lower, rtol=1e-12)
    with pytest.raises(ValueError, match="not symmetric"):
        KernelPCA(3, kernel=lambda a, b: float(a[0])).fit(A)


@pytest.mark.parametrize("eigen_solver", ["dense", "lanczos", "arpack", "randomized"])
def test_what_is_no_kernel_warns_whatever_is_asked_for(rng, eigen_solver):
    """One negative eigenvalue of 80, far from those asked for."""
    Q = np.linalg.qr(rng.standard_normal((80, 80)))[0]
    K = (Q * np.r_[np.geomspace(5.0, 1e-3, 79), -0.2]) @ Q.T
    for rank in (1, 5):
        model = KernelPCA(rank, kernel="precomputed", eigen_solver=eigen_solver, center=False, random_state=0)
        with pytest.warns(PositiveSpectrumWarning, match=r"has an eigenvalue of -0\.(2|19)\d* or less"):
            model.fit((K + K.T) / 2)
    K = (Q * np.r_[np.geomspace(5.0, 1e-3, 79), 0.0]) @ Q.T  # a kernel does not warn
    KernelPCA(1, kernel="precomputed", eigen_solver=eigen_solver, center=False, random_state=0).fit((K + K.T) / 2)


# ---- maps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("approximation", "kernel", "atol"),
    [(FourierFeatures(n_components=8000), RBF(2.0), 0.1), (Nystroem(n_components=150), RBF(2.0), 1e-6)],
    ids=["fourier", "nystroem"],
)
def test_maps_come_near(approximation, kernel, atol):
    X, Z = data()
    exact = KernelPCA(2, kernel=kernel).fit(X)
    near = KernelPCA(2, kernel=kernel, approximation=approximation, random_state=0).fit(X)
    np.testing.assert_allclose(near.eigenvalues_, exact.eigenvalues_, rtol=atol)
    np.testing.assert_allclose(near.transform(Z), exact.transform(Z), atol=atol)
    assert near.certificate_.converged


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [8, 150])
def test_polynomial_map_is_exact(center, n):
    X, Z = data(n)
    exact = KernelPCA(3, kernel=Polynomial(2), center=center).fit(X)
    near = KernelPCA(3, approximation=PolynomialMap(2), center=center).fit(X)
    np.testing.assert_allclose(near.transform(Z), exact.transform(Z), atol=1e-8)
    np.testing.assert_allclose(near.eigenvectors_, exact.eigenvectors_, atol=1e-8)
    np.testing.assert_allclose(near.explained_variance_ratio_, exact.explained_variance_ratio_)
    sparse = KernelPCA(3, approximation=PolynomialMap(2), center=center).fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.transform(sp.csr_array(Z)), exact.transform(Z), atol=1e-8)


# ---- the way back -----------------------------------------------------------------------------------------------


def test_ridge_inverse_is_scikit_learns():
    X, Z = data()
    options = {"n_components": 3, "kernel": "rbf", "fit_inverse_transform": True, "alpha": 0.1}
    ours, peer = KernelPCA(**options).fit(X), Peer(**options).fit(X)
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=1e-6)
    T = peer.transform(Z)
    np.testing.assert_allclose(ours.inverse_transform(T), peer.inverse_transform(T), atol=1e-6)


@pytest.mark.parametrize("center", [True, False])
def test_fixed_point_returns_what_all_components_keep(center):
    X, _ = data(60, 2)
    model = KernelPCA(kernel=RBF([2.0, 3.0]), fit_inverse_transform=True, inverse="fixed-point", center=center).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-2)


def test_fixed_point_that_does_not_settle_warns(monkeypatch):
    X, _ = data(60, 2)
    model = KernelPCA(2, kernel=RBF(0.3), fit_inverse_transform=True, inverse="fixed-point").fit(X)
    monkeypatch.setattr("gramian.estimators.pca.fixed_point", partial(fixed_point, max_iter=1))
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model.inverse_transform(model.transform(X))


# ---- refusals and promises --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 50, "eigen_solver": "lanczos"}, "needs 'dense'"),
        ({"n_components": 100, "eigen_solver": "arpack"}, "use 'dense'"),
        ({"kernel": "precomputed", "fit_inverse_transform": True}, "Cannot fit_inverse_transform"),
        ({"kernel": Linear(), "fit_inverse_transform": True, "inverse": "fixed-point"}, "is for the RBF kernel"),
        ({"kernel": RBF([1.0] * 100), "n_components": 2, "fit_inverse_transform": True}, "one lengthscale for all"),
        ({"approximation": FourierFeatures(), "kernel": "rbf", "eigen_solver": "dense"}, "leave eigen_solver='auto'"),
        ({"approximation": FourierFeatures(gamma=1.0), "kernel": "rbf"}, "the kernel is set on KernelPCA"),
        ({"approximation": PolynomialMap(), "kernel": "rbf"}, "has a kernel of its own"),
    ],
)
def test_refusals(parameters, message, rng):
    X = rng.standard_normal((100, 100))
    with pytest.raises(ValueError, match=message):
        KernelPCA(**parameters).fit(X @ X.T)


def test_inverse_is_only_there_when_asked_for():
    X, _ = data()
    with pytest.raises(NotFittedError, match="fit_inverse_transform"):
        KernelPCA(2).fit(X).inverse_transform(np.ones((1, 2)))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        KernelPCA(2, fit_inverse_transform=True).fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="one column for each of 2 components"):
        KernelPCA(2, fit_inverse_transform=True).fit(X).inverse_transform(np.ones((1, 3)))


def test_a_short_fit_warns_and_a_failed_one_changes_nothing():
    X, _ = data(400)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 products"):
        model = KernelPCA(8, kernel=RBF(0.3), eigen_solver="lanczos", max_iter=2, random_state=0).fit(X)
    before = model.eigenvalues_.copy()
    with pytest.raises(ValueError, match="needs 'dense'"):
        model.set_params(n_components=300).fit(X)
    np.testing.assert_array_equal(model.eigenvalues_, before)
    assert model.transform(X).shape == (400, 8)


def test_memory_is_bounded():
    snippet = """
    import numpy as np
    from gramian.estimators.pca import KernelPCA
    from gramian.kernels import RBF
    X = np.random.default_rng(0).standard_normal((6000, 4))
    model = KernelPCA({k}, kernel=RBF(2.0), memory="20MB", random_state=0).fit(X[:{n}])
    model.transform(X[:{n}])
    print(model.certificate_.converged)
    """
    small, _ = peak_bytes(snippet.format(n=1100, k=2))
    large, printed = peak_bytes(snippet.format(n=6000, k=5))
    assert "True" in printed
    # K would take 288 MB in float64.
    assert large - small < 60e6


def test_interrupt_leaves_it_unfitted(monkeypatch):
    X, _ = data()

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("gramian.estimators.pca.by_gram", interrupt)
    model = KernelPCA(2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.undo()
        model.fit(X)


@pytest.mark.parametrize("solver", ["auto", "dense", "lanczos", "arpack", "randomized"])
def test_columns_of_many_scales(solver, rng):
    # The fifth eigenvalue is 1e-8 of the first: a residual relative to the first would say nothing about it.
    X = rng.standard_normal((1200, 6)) * [1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2]
    model = KernelPCA(5, kernel="linear", eigen_solver=solver, random_state=0).fit(X)
    singular = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.eigenvalues_, singular[:5] ** 2, rtol=1e-5)


@pytest.mark.parametrize("n_components", [None, 3, 6])
@pytest.mark.parametrize("n", [1, 2, 4, 30])
def test_more_components_than_there_are(n, n_components, rng):
    X = np.outer(rng.standard_normal(n), [1.0, 2.0])  # rank one
    model = KernelPCA(n_components, kernel="linear").fit(X)
    assert model.certificate_.converged
    top = float(np.sum((X - X.mean(axis=0)) ** 2))
    np.testing.assert_allclose(model.eigenvalues_.sum(), top, atol=1e-12)
    assert np.count_nonzero(model.eigenvalues_) == (top > 0)


def test_a_map_whose_features_lie_far_from_zero_loses_no_digits(rng):
    X = 1e6 + rng.standard_normal((300, 2))
    model = KernelPCA(2, approximation=PolynomialMap(degree=1)).fit(X)
    assert model.certificate_.converged
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)


def test_float32_rows_are_projected_as_they_were_fitted(rng):
    X = rng.standard_normal((300, 2)).astype(np.float32)
    model = KernelPCA(30, kernel="rbf", gamma=0.05, random_state=0)
    fitted = model.fit_transform(X)
    assert model.transform(X).dtype == np.float32
    sizes = np.abs(fitted).max(axis=0)
    np.testing.assert_allclose(model.transform(X), fitted, atol=1e-5 * sizes[sizes > 0].min())


def test_kernel_values_beyond_single_precision(rng):
    X = rng.standard_normal((60, 5)) * 1e6
    exact, found = (
        KernelPCA(2, kernel="poly", degree=3, gamma=1.0, eigen_solver=solver).fit(X) for solver in ("dense", "lanczos")
    )
    assert exact.eigenvalues_[0] > 1e38
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    assert found.certificate_.converged


def test_kernel_values_that_cannot_be_squared_are_refused(rng):
    X = rng.standard_normal((20, 3))
    with pytest.raises(ValueError, match="multiply the kernel by a constant"):
        KernelPCA(2, kernel=1e-300 * RBF(1.0)).fit(X)
