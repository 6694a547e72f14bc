"""Estimators, with scikit-learn's contract and a certificate."""
