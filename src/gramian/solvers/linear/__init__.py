"""Linear systems with a kernel matrix, and least squares."""
