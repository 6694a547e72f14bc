"""Solvers: numbers in, a solution with its certificate out; they know nothing of estimators."""
