"""Kernel machines with any loss."""
