"""Rows that need not fit in memory: blocks, passes over them, and their executors."""

from gramian.data.blocks import Blocks
from gramian.data.cluster import connect
from gramian.data.predictions import Results

__all__ = ["Blocks", "Results", "connect"]
