"""One more object, at the origin of feature space, beside the rows of a matrix."""

import numpy as np

from gramian.gram import Gram
from gramian.kernels import Linear
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm.row_cache import FeatureRows, KernelRows, RowCache, StoredRows


def test_an_object_at_the_origin(rng):
    F = rng.standard_normal((12, 3))
    padded = np.zeros((13, 13))
    padded[:12, :12] = F @ F.T
    gram = Gram(Linear(), F)
    stored = StoredRows(gram.dense(), np.arange(12), gram.rounding)
    for inner in (FeatureRows(F), KernelRows([RowCache(gram, np.arange(12), 10**6)]), stored):
        rows = AnchoredRows(inner)
        objects, weights = np.array([2, 7, 12]), np.array([1.0, 2.0, 5.0])
        for some in (objects, objects[:2]):
            out = np.full((some.size, some.size), np.nan)
            rows.square(some, out)
            np.testing.assert_allclose(out, padded[np.ix_(some, some)], atol=1e-12)
        np.testing.assert_allclose(rows.exact(objects, np.arange(13)), padded[objects], atol=1e-12)
        for at in (None, np.array([0, 5, 12]), np.array([3, 4])):
            of = slice(None) if at is None else at
            np.testing.assert_allclose(
                rows.exact_sum(objects, weights, at), weights @ padded[objects][:, of], atol=1e-12
            )
        total = np.zeros(13)
        rows.add(objects, weights, total)
        np.testing.assert_allclose(total, weights @ padded[objects], atol=1e-12)
        np.testing.assert_allclose(rows.diagonal(), np.diag(padded))
        assert not rows.upgrade()
        assert rows.evicted == 0
        assert rows.largest_square == 13
