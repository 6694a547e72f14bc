"""Evidence, hyperparameters and posteriors of Gaussian processes."""
