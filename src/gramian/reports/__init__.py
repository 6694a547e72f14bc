"""One self-contained HTML page about a fitted model.

The package is called ``reports`` because ``gramian.report`` is the function, and a package of that name would take its
place.
"""

from gramian.reports.page import report

__all__ = ["report"]
