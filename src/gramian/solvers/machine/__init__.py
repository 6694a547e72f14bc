"""Machines with any convex loss and any penalty."""
