"""The ``gramian`` command: one module for each of its commands."""

from gramian.cli.main import main

__all__ = ["main"]
