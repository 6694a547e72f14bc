"""Fingerprints of the data that a model was fitted on."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gramian.kernels.points import is_sparse

__all__ = ["digest", "fingerprint"]

KEPT = ("X_fit_", "X_train_", "support_vectors_", "components_", "means_")
"""Attributes that hold rows, or what was made of them; the first that is there counts."""


def fingerprint(model: Any) -> dict[str, Any]:
    """Return what is known of the data behind a model, in plain values."""
    names = getattr(model, "feature_names_in_", None)
    known = {
        "inputs": getattr(model, "n_features_in_", None),
        "names": None if names is None else [str(name) for name in names],
    }
    held = vars(model) | {f"best_.{name}": value for name, value in vars(getattr(model, "best_", object)).items()}
    places = [place for name in KEPT for place in (name, f"best_.{name}") if place in held]
    if not places:
        return known
    rows = held[places[0]]
    return known | {"kept": places[0], "rows": int(rows.shape[0]), "sha256": digest(rows)}


def digest(rows: Any) -> str:
    """Return a digest of an array's values, shape and dtype."""
    found = hashlib.sha256(f"{rows.shape} {rows.dtype}".encode())
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    for part in parts:
        if part.dtype == object:
            for item in part.ravel():
                found.update(repr(item).encode("utf-8", "surrogatepass") + b"\0")
        elif part.size:
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
