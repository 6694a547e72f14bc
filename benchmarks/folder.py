"""Make a folder of Parquet files: ``python -m benchmarks.folder FOLDER [ROWS]``, ten columns and a target."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

COLUMNS, FILES, GROUP = 10, 10, 131_072


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of three clusters, and a smooth target with noise."""
    rng = np.random.default_rng([20, seed])
    X = rng.standard_normal((count, COLUMNS)) + rng.integers(-1, 2, count)[:, None]
    y = np.sin(X[:, 0]) + np.sin(X[:, 1] * X[:, 2]) + 0.5 * np.tanh(X[:, 3:].sum(axis=1))
    return X, y + 0.1 * rng.standard_normal(count)


def make(folder: Path, count: int) -> Path:
    """Write the files, unless they are there; one after the other, so that little is in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for i in range(FILES):
        file = folder / f"part-{i:02d}.parquet"
        if file.exists():
            continue
        X, y = rows(count // FILES, i)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "y": y})
        pq.write_table(table, file.with_suffix(".draft"), row_group_size=GROUP, compression="zstd")
        file.with_suffix(".draft").rename(file)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    options = parser.parse_args()
    print(make(options.folder, options.rows))
