"""Checkpoints of fits over blocks: a folder with the sums that passes have returned.

A fit is a function of the sums that its passes bring back. So a checkpoint need only keep these: when the fit is
repeated, passes that were finished are answered from the folder, the one that was under way goes on from its last
subtrees, and every step in between is computed again, to the same bits. No solver knows of it. A folder holds one
``.npz`` file for each pass, plain arrays and one line of JSON, each written under another name and then renamed.
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
from gramian.data.passes import Sums

NAME, MINE = "pass-{:05d}.npz", "pass-[0-9]*.npz"
"""Name pattern of checkpoint files."""
FORMAT = "gramian checkpoint 1"


class Checkpoint:
    """A folder with the results of passes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"checkpoint must be a folder, but {self.path} is a file; choose another path.")

    def write(self, number: int, fingerprint: str, done: int, held: Iterable[tuple[int, Sums | None]]) -> None:
        """Save a pass, or the finished part of it."""
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
        """Return the saved part of a pass."""
        file = self.path / NAME.format(number)
        if not file.exists():
            return 0, []
        with np.load(file, allow_pickle=False) as kept:
            header = json.loads(str(kept["header"]))
            if header.get("format") != FORMAT or header["fingerprint"] != fingerprint:
                raise ValueError(
                    f"the checkpoint in {self.path} belongs to another problem (other data, parameters or seed); "
                    "remove that folder to start again, or name another."
                )
            values: list[dict[str, NDArray[Any]]] = [{} for _ in header["sizes"]]
            for key in kept.files:
                place, _, name = key.partition("/")
                if name:
                    values[int(place)][name] = kept[key]
        pairs = zip(header["sizes"], header["empty"], values, strict=True)
        return int(header["done"]), [(int(size), None if nothing else Sums(value)) for size, nothing, value in pairs]

    def clear(self) -> None:
        """Remove the saved passes, and the folder if it is then empty."""
        if not self.path.exists():
            return
        for file in [*self.path.glob(MINE), *self.path.glob(f".{MINE}.*")]:  # also temporary files of killed fits
            file.unlink()
        if not any(self.path.iterdir()):
            self.path.rmdir()
