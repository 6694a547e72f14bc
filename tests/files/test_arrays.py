"""Arrays and plain values of every kind come back as they were: dtype, shape, layout, sharing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as safetensors
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gramian.files.arrays import Packed, Unpacked
from gramian.files.codec import ModelDecoder, ModelEncoder

BASE = np.arange(12.0).reshape(4, 3)
ARRAYS: dict[str, Any] = {
    "zero-dimensional": np.array(3.5),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "no columns": np.zeros((4, 0)),
    "Fortran": np.asfortranarray(BASE),
    "three dimensions": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "strided": BASE[::2, ::-1],
    "half": np.array([1.0, np.inf, np.nan], dtype=np.float16),
    "booleans": np.array([True, False]),
    "unsigned": np.array([2**64 - 1], dtype=np.uint64),
    "complex": np.array([[1 + 2j, np.nan]], dtype=np.complex64),
    "big-endian": np.arange(3, dtype=">i4"),
    "text": np.array(["a", "čížek", ""]),
    "empty text": np.array([""], dtype="<U0"),
    "matrix of text": np.array([["a", "bc"], ["def", ""]]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"),
    "instants": np.array(["2026-01-01T00:00:00.123"], dtype="datetime64[ns]"),
    "durations": np.array([1, 2], dtype="timedelta64[s]"),
    "objects of text": np.array(["a", "", "\ud800 alone", "čížek"], dtype=object),
    "no objects": np.array([], dtype=object),
}


def through(value: Any) -> Any:
    """Encode, through JSON and safetensors bytes, and decode."""
    encoder = ModelEncoder()
    state = json.loads(json.dumps(encoder.encode(value, "model.x")))
    tensors = {name: a.copy() for name, a in safetensors.load(safetensors.save(encoder.arrays.tensors)).items()}
    entries = json.loads(json.dumps(encoder.arrays.entries))
    return ModelDecoder(Unpacked(entries, tensors.__getitem__)).decode(state)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(name: str) -> None:
    a = ARRAYS[name]
    b = through(a)
    assert b.dtype == (a.dtype.newbyteorder("=") if a.dtype.itemsize else np.dtype("<U1"))
    assert b.shape == a.shape
    assert b.flags.f_contiguous == a.flags.f_contiguous or not a.flags.forc
    if a.dtype.kind in "mM":
        a, b = a.view(np.int64), b.view(np.int64)  # no two missing times are equal
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array])
def test_sparse_arrays_come_back(make: Any) -> None:
    a = make(np.where(BASE % 2, BASE, 0.0))
    b = through(a)
    assert type(b) is type(a)
    assert (a != b).nnz == 0
    assert b.indices.dtype == a.indices.dtype


@pytest.mark.parametrize("make", [sp.coo_matrix, sp.lil_array])
def test_other_sparse_formats_are_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="only CSR and CSC can be saved"):
        through(make(BASE))


def test_columns_of_one_matrix_share_it() -> None:
    matrix = BASE.copy()
    first, again, columns = through((matrix, matrix, [matrix[:, 0], matrix[:, 2]]))
    assert first is again
    assert all(np.shares_memory(first, column) for column in columns)
    assert columns[1].tolist() == matrix[:, 2].tolist()
    assert columns[1].strides == matrix[:, 2].strides


def test_equal_arrays_that_are_not_the_same_stay_apart() -> None:
    a, b = through((BASE.copy(), BASE.copy()))
    assert not np.shares_memory(a, b)


SCALARS = [
    np.float32(0.1),
    np.int8(-3),
    np.bool_(True),
    np.str_("é"),
    np.datetime64("2026-01-01", "s"),
    np.float64("nan"),
]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_scalars_come_back(value: Any) -> None:
    again = through(value)
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_generators_come_back_where_they_were() -> None:
    for made in (np.random.default_rng(3), np.random.RandomState(3), np.random.Generator(np.random.Philox(3))):
        made.normal(size=3)
        again = through(made)
        assert type(again) is type(made)
        assert again.normal(size=5).tolist() == made.normal(size=5).tolist()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_come_back(value: Any) -> None:
    assert repr(through(value)) == repr(value)


def test_unused_names_are_known() -> None:
    packed = Packed()
    packed.add(BASE, "used")
    packed.add(BASE + 1.0, "unused")
    arrays = Unpacked(packed.entries, packed.tensors.__getitem__)
    assert arrays.get("used").shape == (4, 3)
    assert arrays.unused() == {"unused"}
