"""Kernel machines: one algebra, any loss, every fit with a certificate."""

__version__ = "0.1.0"
