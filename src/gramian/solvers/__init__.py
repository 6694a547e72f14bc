"""Numbers in, a solution with its certificate out. Nothing here knows an estimator."""
