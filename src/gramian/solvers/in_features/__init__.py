"""Solvers in the coordinates of a feature map, over passes."""
