"""The command, as ``python -m gramian``."""

from gramian.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
