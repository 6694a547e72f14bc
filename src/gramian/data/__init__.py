"""Rows that need not fit in memory, and who works on them."""

from gramian.data.blocks import Blocks
from gramian.data.cluster import connect
from gramian.data.results import Results

__all__ = ["Blocks", "Results", "connect"]
