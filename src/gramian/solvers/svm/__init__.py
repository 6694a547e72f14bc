"""Quadratic programs of the support vector family."""
