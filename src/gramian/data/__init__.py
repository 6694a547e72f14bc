"""Rows that need not fit in memory, and who works on them."""
