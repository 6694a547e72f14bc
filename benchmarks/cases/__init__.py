"""One module for each case; importing it registers the case."""

from importlib import import_module
from pkgutil import iter_modules


def load_all() -> None:
    """Import every case, so that ``harness.CASES`` is complete."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
