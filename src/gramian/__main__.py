"""The command, as ``python -m gramian``."""

from gramian.cli import command

if __name__ == "__main__":
    command()
