"""Shapes of the tiles in which a Gram matrix is computed."""

from __future__ import annotations

__all__ = ["PANEL", "TILE_CELLS", "tile_shape"]

PANEL = 128
"""Rows of a panel: enough for an efficient GEMM, few enough to stay near the cache."""
TILE_CELLS = 256 * 2048
"""Cells of a tile that is used and thrown away: small enough for the cache, large enough for BLAS."""


def tile_shape(m: int, budget: int, cell_bytes: int, workers: int) -> tuple[int, int]:
    """Choose the shape of tiles that are used and thrown away.

    It does not depend on the number of workers unless memory is scarce, so that sums are taken in the same order.
    """
    cells = max(min(TILE_CELLS, budget // (cell_bytes * workers)), 1)
    rows = max(min(2 * PANEL, cells), 1)
    return rows, max(min(m, cells // rows), 1)
