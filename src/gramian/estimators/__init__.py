"""What people import: estimators with scikit-learn's contract and a certificate."""
