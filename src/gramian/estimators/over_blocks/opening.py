"""Names that machines over blocks still import from here."""

from __future__ import annotations

from gramian.estimators.approximation import lifted, opened, sampled

__all__ = ["lifted", "opened", "sampled"]
