"""Damaged and edited files: always ModelFileError, and never more memory than the file explains."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gramian
from fitted import VARIANTS
from gramian.files import ModelFileError, inspect

MODELS = [
    "tree",
    "sparse svr",
    "names",
    "texts",
    "their classes",
    "gp landmarks",
    "random state",
    "many targets",
    "steps",
]
FLIPS, CUTS, EDITS, HEADERS, BYTES = 60, 30, 150, 50, 20
"""Per model; nine models, two readers."""
ABSURD = [
    None, True, -1, 0, 1.5, 10**30, 1e300, "", "RBF", "../../etc/passwd", "__class__", [], {}, [[]],
    {"array": "X_fit_"}, {"tuple": [1]}, {"dict": [[[], 1]]}, {"float": "nan"}, {"float": "x"},
    {"objects": [1], "shape": [10**12]},
    {"objects": [], "shape": [0, 10**18]}, {"range": [0, 10**18, 0]}, {"kernel": {"kernel": "Callable"}},
    {"kernel": {"kernel": "Polynomial", "degree": 10**9}}, {"object": "os.system", "fields": {}},
    {"object": "SVC", "fields": {}}, {"object": "Certificate", "fields": {}}, {"scalar": 1}, {"unknown": 1},
    {"object": "KernelRidge", "parameters": {}, "fitted": {"predict": 1}},
    {"random": "Generator", "state": {"dict": []}},
    {"object": "Function", "fields": {"kernel": None, "X": None, "coefficients": None}},
]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files of some models, by name."""
    folder = tmp_path_factory.mktemp("saved")
    kept = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, name in enumerate(MODELS):
            gramian.save(VARIANTS[name]()[0], folder / str(i))
            kept[name] = {p.name: p.read_bytes() for p in (folder / str(i)).iterdir()}
    return kept


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def signed(document: Any) -> bytes:
    return signed_text(json.dumps(document).encode()[1:])


def signed_text(rest: bytes) -> bytes:
    return f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode() + rest


def document_of(files: dict[str, bytes]) -> Any:
    document = json.loads(files["manifest.json"])
    del document["sha256"]
    return document


def with_arrays(files: dict[str, bytes], content: bytes) -> dict[str, bytes]:
    """The same model with other bytes for its arrays, and checksums that fit them."""
    document = document_of(files)
    digest = hashlib.sha256(content).hexdigest()
    name = f"arrays-{digest[:16]}.safetensors"
    document["files"] = {name: {"bytes": len(content), "sha256": digest}}
    return {"manifest.json": signed(document), name: content}


def arrays_of(files: dict[str, bytes]) -> tuple[str, bytes]:
    ((name, content),) = [(n, c) for n, c in files.items() if n != "manifest.json"]
    return name, content


def read_both_ways(folder: Path) -> bool:
    """Load and inspect; True where the file was refused, which must be by ModelFileError and by both or by load."""
    size = sum(p.stat().st_size for p in folder.iterdir() if p.is_file())
    refused = False
    for reader in (gramian.load, inspect):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            reader(folder)
        except ModelFileError:
            refused = True
        assert tracemalloc.get_traced_memory()[1] - before < 50 * size + 2_000_000
    return refused


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("model", MODELS)
def test_flipped_bits_and_cut_files_are_always_found(model: str, saved: Any, tmp_path: Path) -> None:
    rng = random.Random(model)
    for name, content in saved[model].items():
        for _ in range(FLIPS):
            at = rng.randrange(len(content))
            damaged = bytearray(content)
            damaged[at] ^= 1 << rng.randrange(8)
            assert read_both_ways(write(tmp_path / "m", {**saved[model], name: bytes(damaged)})), (name, at)
        for _ in range(CUTS):
            cut = content[: rng.randrange(len(content))]
            assert read_both_ways(write(tmp_path / "m", {**saved[model], name: cut})), (name, len(cut))
        assert read_both_ways(write(tmp_path / "m", {**saved[model], name: content + b"\0"}))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a document lies."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def edited(document: Any, rng: random.Random) -> Any:
    """One value changed, taken away, renamed, or put in the place of another."""
    document = json.loads(json.dumps(document))
    every = list(places(document))
    *way, last = rng.choice(every)
    holder = document
    for key in way:
        holder = holder[key]
    action = rng.choice(["change", "change", "delete", "rename", "swap"])
    if action == "delete":
        del holder[last]
    elif action == "rename" and isinstance(holder, dict):
        holder[rng.choice(["", "x", "__init__", "fit", "kernel"])] = holder.pop(last)
    elif action == "swap":
        other = document
        for key in rng.choice(every):
            other = other[key]
        holder[last] = json.loads(json.dumps(other))
    else:
        holder[last] = rng.choice(ABSURD)
    return document


@pytest.mark.parametrize("model", MODELS)
def test_edited_manifests_with_right_checksums_load_or_are_refused(model: str, saved: Any, tmp_path: Path) -> None:
    rng = random.Random(model)
    document = document_of(saved[model])
    refused = 0
    for _ in range(EDITS):
        files = {**saved[model], "manifest.json": signed(edited(document, rng))}
        refused += read_both_ways(write(tmp_path / "m", files))
    assert refused > EDITS / 3


@pytest.mark.parametrize("model", MODELS)
def test_edited_arrays_with_right_checksums_load_or_are_refused(model: str, saved: Any, tmp_path: Path) -> None:
    rng = random.Random(model)
    _, content = arrays_of(saved[model])
    length = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    for _ in range(HEADERS):
        text = json.dumps(edited(header, rng)).encode()
        made = len(text).to_bytes(8, "little") + text + body
        read_both_ways(write(tmp_path / "m", with_arrays(saved[model], made)))
    for _ in range(BYTES):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] = rng.randrange(256)
        read_both_ways(write(tmp_path / "m", with_arrays(saved[model], bytes(damaged))))


def change(key: str, value: Any) -> Any:
    def apply(files: dict[str, bytes]) -> dict[str, bytes]:
        document = document_of(files)
        document[key] = value
        return {**files, "manifest.json": signed(document)}

    return apply


def reshape(shape: list[int]) -> Any:
    def apply(files: dict[str, bytes]) -> dict[str, bytes]:
        _, content = arrays_of(files)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        header["X_fit_"]["shape"] = shape
        text = json.dumps(header).encode()
        return with_arrays(files, len(text).to_bytes(8, "little") + text + content[8 + length :])

    return apply


def text(edit: Any) -> Any:
    def apply(files: dict[str, bytes]) -> dict[str, bytes]:
        return {**files, "manifest.json": signed_text(edit(json.dumps(document_of(files)).encode()[1:]))}

    return apply


DEEP = b"[" * 200_000
SAID = {
    "newer": (change("version", 2), "in format 2.*Upgrade gramian"),
    "no version": (change("version", "1"), "which is not a version"),
    "not ours": (change("format", "other"), "is not the manifest of a gramian model"),
    "up the tree": (change("files", {"../x": {"bytes": 1, "sha256": "0"}}), "cannot be a file of arrays"),
    "absolute": (change("files", {"/etc/passwd": {"bytes": 1, "sha256": "0"}}), "cannot be a file of arrays"),
    "no files": (change("files", {}), "should name one file of arrays"),
    "unknown name": (change("model", {"object": "KernelRigde", "parameters": {}, "fitted": {}}), "did you mean"),
    "python name": (change("model", {"object": "os.system", "fields": {}}), "unknown name 'os.system'"),
    "unfitted": (
        change("model", {"object": "KernelRidge", "parameters": {}, "fitted": {}}),
        "is not used by the model",
    ),
    "no arrays": (change("arrays", {}), "is not described"),
    "too large": (reshape([10**6, 10**6]), "arrays-.* cannot be read"),
    "overflowing": (reshape([2**62, 2**62]), "arrays-.* cannot be read"),
    "negative": (reshape([-30, -3]), "arrays-.* cannot be read"),
    "twice": (text(lambda rest: b'"format": "gramian model", ' + rest), "occurs twice"),
    "NaN": (text(lambda rest: rest.replace(b'"seed": null', b'"seed": NaN')), "number NaN is not finite"),
    "infinite": (text(lambda rest: rest.replace(b'"seed": null', b'"seed": 1e999')), "not finite"),
    "deep": (text(lambda rest: rest.replace(b'"seed": null', b'"seed": ' + DEEP)), "nested too deeply"),
    "not UTF-8": (text(lambda rest: rest + b"\xff"), "not valid JSON"),
    "empty manifest": (lambda files: {**files, "manifest.json": b""}, "does not start"),
    "no manifest": (lambda files: dict([arrays_of(files)]), "manifest.json is missing"),
    "no file of arrays": (lambda files: {"manifest.json": files["manifest.json"]}, "arrays-.* is missing"),
}


@pytest.mark.parametrize("case", SAID)
def test_the_message_says_which(case: str, saved: Any, tmp_path: Path) -> None:
    damage, message = SAID[case]
    folder = write(tmp_path / "m", damage(saved["names"]))
    with pytest.raises(ModelFileError, match=message) as raised:
        gramian.load(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    read_both_ways(folder)


def test_places_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no such folder"):
        gramian.load(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFileError, match="is a file, not the folder"):
        gramian.load(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFileError, match=r"manifest.json is missing; this is not the folder of a model"):
        gramian.load(tmp_path / "empty")


@pytest.mark.skipif(os.name != "posix", reason="links and pipes are made otherwise elsewhere")
def test_links_and_pipes_are_not_followed(saved: Any, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", saved["names"])
    name, content = arrays_of(saved["names"])
    (tmp_path / "elsewhere").write_bytes(content)
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError, match="it is a link"):
        gramian.load(folder)
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    with pytest.raises(ModelFileError, match="not a plain file"):
        gramian.load(folder)


def test_a_huge_manifest_is_not_read(saved: Any, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", saved["names"])
    with (folder / "manifest.json").open("r+b") as file:
        file.truncate(1 << 30)  # a hole: no disk is used
    with pytest.raises(ModelFileError, match="too large for a manifest"):
        gramian.load(folder)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000


def test_white_space_is_harmless_where_it_is_signed(saved: Any, tmp_path: Path) -> None:
    files = text(lambda rest: rest.replace(b", ", b" ,\n\t "))(saved["names"])
    model = gramian.load(write(tmp_path / "m", files))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
