"""Eigenproblems and pre-images."""
