"""Expectation-maximisation for mixtures."""
