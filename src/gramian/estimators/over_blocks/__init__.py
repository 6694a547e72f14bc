"""Fits over rows that come by blocks: one module for each machine, all by sums that passes bring back."""
