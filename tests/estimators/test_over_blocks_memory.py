"""What a fit over blocks holds, measured in a process of its own: blocks, never the data."""

from __future__ import annotations

import pytest

from peak import peak_bytes

pytest.importorskip("pyarrow")

DATA = """
import tempfile, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from gramian import GaussianMixture, KernelRidge, Nystroem
from gramian.data import Blocks

def folder(files):
    path = tempfile.mkdtemp()
    for i in range(files):
        X = np.random.default_rng(i).standard_normal((50_000, 5))
        columns = {f"x{j}": X[:, j] for j in range(5)}
        pq.write_table(pa.table({**columns, "y": np.sin(X[:, 0])}), f"{path}/{i}.parquet", row_group_size=10_000)
    return path

def ridge(path):
    model = KernelRidge(1e-2, kernel="rbf", approximation=Nystroem(n_components=100), random_state=0, n_jobs=2)
    return model.fit(Blocks(path, target="y", client=False, rows=20_000))

def mixture(path):
    blocks = Blocks(path, columns=[f"x{j}" for j in range(5)], client=False, rows=20_000)
    return GaussianMixture(2, max_iter=2, tol=10.0, init_params="random_from_data", random_state=0).fit(blocks)
"""


@pytest.mark.parametrize("fit", ["ridge", "mixture"])
def test_memory_does_not_grow_with_the_rows(fit):
    few, _ = peak_bytes(DATA + f"{fit}(folder(2))")
    many, _ = peak_bytes(DATA + f"{fit}(folder(10))")
    # 400,000 rows more: 19 MB of data, 320 MB of features.
    assert many - few < 15e6
