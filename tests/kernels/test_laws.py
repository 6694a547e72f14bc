"""Every law on every kernel class, and on random expressions."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import laws
from gramian import kernels as gk

ALL = [
    laws.symmetric,
    laws.diag_is_the_diagonal,
    laws.tile_is_the_double_loop,
    laws.any_tiling_gives_the_same_product,
    laws.theta_round_trip,
    laws.fields_round_trip,
    laws.vjp_is_the_finite_difference,
    laws.survives_pickle_copy_and_clone,
    laws.out_is_written,
]
VECTORS = [
    laws.takes_readonly_and_fortran_rows,
    laws.leaves_its_input_alone,
    laws.float32_stays_float32,
]
DIFFERENTIABLE = [laws.grad_inputs_is_the_finite_difference, laws.diagonal_gradient_is_the_finite_difference]


def parametrize(rules, cases):
    return pytest.mark.parametrize(
        ("law", "case"), [pytest.param(law, case, id=f"{law.__name__}-{case}") for law in rules for case in cases]
    )


def test_every_class_has_an_example():
    laws.every_class_has_an_example()


@parametrize(ALL, laws.cases())
def test_law(law, case):
    law(case)


@parametrize(VECTORS, laws.vector_cases())
def test_law_of_vectors(law, case):
    law(case)


@parametrize(DIFFERENTIABLE, laws.differentiable_cases())
def test_law_of_gradients(law, case):
    law(case)


@parametrize([*ALL, laws.positive_semidefinite, laws.leaves_its_input_alone], laws.hard_cases())
def test_law_where_distances_lose_digits(law, case):
    law(case)


@parametrize([laws.positive_semidefinite], [c for c in laws.cases() if laws.is_psd(c.kernel)])
def test_psd(law, case):
    law(case)


@pytest.mark.parametrize("name", sorted(laws.NOT_PSD))
def test_what_is_no_kernel_says_so(name):
    cls = getattr(gk, name)
    assert "**not** positive semi-definite" in " ".join(cls.__doc__.split())
    X = np.random.default_rng(0).random((30, 3))
    assert not gk.is_kernel(laws.EXAMPLES[name][0], X)


def has_code(k):
    return any(
        isinstance(n, gk.Callable | gk.Centred | gk.RankOne)
        or (isinstance(n, gk.Composed) and callable(n.phi) and not hasattr(n.phi, "to_dict"))
        for n in laws.nodes(k)
    )


@parametrize([laws.dictionary_round_trip, laws.repr_reads_back], [c for c in laws.cases() if not has_code(c.kernel)])
def test_text_and_data(law, case):
    law(case)


STRICT = [c for c in laws.vector_cases() if not has_code(c.kernel)]


@parametrize([laws.runs_on_strict_arrays, laws.strict_gradients], STRICT)
def test_array_api(law, case):
    law(case)


# ---- random expressions -------------------------------------------------------------------------------------------

numbers = st.floats(0.2, 3.0)
leaves = st.one_of(
    st.builds(gk.RBF, numbers),
    st.builds(gk.RBF, st.tuples(numbers, numbers, numbers)),
    st.builds(gk.Matern, numbers, st.sampled_from([0.5, 1.5, 2.5])),
    st.builds(gk.Laplace, numbers),
    st.builds(gk.RationalQuadratic, numbers, numbers),
    st.builds(gk.Periodic, numbers, numbers),
    st.builds(gk.Polynomial, st.integers(1, 3), numbers, numbers),
    st.builds(gk.Constant, numbers),
    st.builds(gk.White, numbers),
    st.just(gk.Linear()),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, c: c * a, inner, numbers),
        st.builds(lambda a, n: a**n, inner, st.integers(1, 2)),
        st.builds(lambda a: gk.exp(0.1 * a.normalized()), inner),
        st.builds(lambda a, c: gk.polynomial(a, c), inner, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3)),
        st.builds(lambda a: a.normalized(), inner),
        st.builds(lambda a: gk.RBF(0.7).on(1) + a, inner),
    ),
    max_leaves=5,
)


@given(trees, st.integers(0, 2**16))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_expressions(k, seed):
    case = laws.Case(k, laws.rows_for(k, 5, seed), laws.rows_for(k, 4, seed + 1))
    K = k(case.X)
    scale = max(np.abs(K).max(), 1.0)
    np.testing.assert_allclose(K, laws.reference.gram(k, case.X), rtol=1e-8, atol=1e-11 * scale)
    np.testing.assert_allclose(k(case.X, case.Y), laws.reference.gram(k, case.X, case.Y), rtol=1e-8, atol=1e-11 * scale)
    laws.symmetric(case)
    laws.positive_semidefinite(case)
    laws.diag_is_the_diagonal(case)
    laws.dictionary_round_trip(case)
    laws.repr_reads_back(case)
    W = np.random.default_rng(seed).standard_normal(K.shape)
    expected = laws.reference.theta_gradient(k, case.X, None, W)
    np.testing.assert_allclose(k.vjp(case.X, None, W), expected, rtol=1e-4, atol=1e-6 * scale)
    V = W[:, :4]
    expected = laws.reference.input_gradient(k, case.X, case.Y, V)
    np.testing.assert_allclose(k.grad_inputs(case.X, case.Y, V), expected, rtol=1e-3, atol=1e-5 * scale)
