"""The ``gramian`` command: one module for each of its commands."""

from gramian.cli.main import command, main

__all__ = ["command", "main"]
