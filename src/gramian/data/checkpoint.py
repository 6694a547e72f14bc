"""Checkpoints of passes over blocks, from which a fit that was killed goes on.

A fit is a function of the sums that its passes bring back. So it is enough to keep these: when the fit is repeated,
passes that were finished are answered from the folder, the one that was under way goes on from its last subtrees, and
every step in between is computed again, to the same bits. No solver knows of it.

A folder holds one ``.npz`` file for each pass, plain arrays and one line of JSON, each written under another name and
then renamed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.output import replacing
from gramian.data.parts import Sums

__all__ = ["Checkpoint"]

NAME = "pass-{:05d}.npz"
FORMAT = "gramian checkpoint 1"
MINE = "pass-[0-9]*.npz"
"""What the files of a checkpoint are called."""


class Checkpoint:
    """A folder with the results of passes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"checkpoint must be a folder, but {self.path} is a file; choose another path.")

    def write(self, number: int, fingerprint: str, done: int, held: Iterable[tuple[int, Sums | None]]) -> None:
        """Keep a pass, or as much of it as is done."""
        self.path.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {}
        held = list(held)
        for i, (_, value) in enumerate(held):
            arrays |= {f"{i}/{name}": array for name, array in (value.arrays if value is not None else {}).items()}
        header = {"format": FORMAT, "fingerprint": fingerprint, "done": done}
        header |= {"sizes": [size for size, _ in held], "empty": [value is None for _, value in held]}
        with replacing(self.path / NAME.format(number)) as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]

    def read(self, number: int, fingerprint: str) -> tuple[int, list[tuple[int, Sums | None]]]:
        """Return what is kept of a pass."""
        file = self.path / NAME.format(number)
        if not file.exists():
            return 0, []
        with np.load(file, allow_pickle=False) as kept:
            header = json.loads(str(kept["header"]))
            if header.get("format") != FORMAT or header["fingerprint"] != fingerprint:
                raise ValueError(
                    f"the checkpoint in {self.path} is of another problem (other data, parameters or seed); remove "
                    "that folder to begin anew, or name another."
                )
            values: list[dict[str, NDArray[Any]]] = [{} for _ in header["sizes"]]
            for key in kept.files:
                place, _, name = key.partition("/")
                if name:
                    values[int(place)][name] = kept[key]
        pairs = zip(header["sizes"], header["empty"], values, strict=True)
        return int(header["done"]), [(int(size), None if nothing else Sums(value)) for size, nothing, value in pairs]

    def clear(self) -> None:
        """Remove what is kept, and the folder if nothing else is in it."""
        if not self.path.exists():
            return
        for file in [*self.path.glob(MINE), *self.path.glob(f".{MINE}.*")]:  # also drafts of a fit that was killed
            file.unlink()
        if not any(self.path.iterdir()):
            self.path.rmdir()
