"""Explicit maps ψ with k(x, z) = <ψ(x), ψ(z)>, exact or approximate."""
