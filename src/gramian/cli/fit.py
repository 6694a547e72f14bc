"""``gramian fit``: a tuned model from a table."""

from __future__ import annotations

import argparse
import hashlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramian.cli.spread import add_options, blocks_of, is_spread

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]

FEW = 10
"""Different whole numbers up to which a target is taken for classes."""
SAMPLE = 10_000
"""Rows of data in blocks that tell whether the target holds classes."""
WIDE = 300
"""Characters of a kernel that are shown."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "fit",
        parents=[common],
        help="tune a model on a table and save it",
        description="Read a table, try kernel machines by cross-validation, fit the best to all rows, and save it.",
    )
    parser.add_argument(
        "data",
        help="the table: .csv, .parquet, .arrow, .feather, .jsonl, .npy or .npz; or a folder or a quoted pattern of "
        "tables of numbers, which need not fit in memory",
    )
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to save the model")
    parser.add_argument("--task", choices=["auto", "regression", "classification"], default="auto")
    parser.add_argument("--model", choices=["auto", "ridge", "svm", "gp", "machine"], default="auto")
    parser.add_argument("--kernel", metavar="EXPR", help="the only kernel to try, such as '2*RBF(0.5)+Linear()'")
    parser.add_argument("--cv", type=int, default=5, help="parts of the cross-validation (default: %(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="(default: %(default)g)")
    parser.add_argument("--memory", help="most memory, such as 4GB (default: half of what is free)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: %(default)s)")
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Fit and save."""
    start = time.perf_counter()
    from gramian.files import save
    from gramian.files.write import check_folder

    settings = _settings(options)
    check_folder(Path(options.out))
    model, task, notes = (_over_blocks if is_spread(options) else _on_a_table)(options, settings, screen)
    save(model, options.out, data=notes)
    code = python(options, task, settings)
    _tell(model, options, code, screen)
    return {
        "model": str(options.out),
        "task": task,
        "rows": notes["rows"],
        "metric": model.leaderboard_.metric,
        "best": model.best_trial_.to_dict(),
        "baselines": [trial.to_dict() for trial in model.leaderboard_ if trial.baseline],
        "leaderboard": model.leaderboard_.to_dicts(),
        "certificate": model.certificate_.to_dict(),
        "refit": model.refit_,
        "seconds": time.perf_counter() - start,
        "python": code,
    }


def _on_a_table(
    options: argparse.Namespace, settings: dict[str, Any], screen: Screen
) -> tuple[Any, str, dict[str, Any]]:
    """The model, the task, and what to note of the data."""
    from gramian.data.tables import open_table, split_target

    source = open_table(options.data)
    source.require([options.target])
    table = source.read()
    X, y = split_target(table, options.target)
    task = _task(options, y)
    model = _estimator(task, settings)
    columns = f"{X.num_columns} column{'s' if X.num_columns != 1 else ''}"
    screen.say(f"{options.data}: {X.num_rows:,} rows, {columns}; {options.target} is a {task} target")
    if lost := table.num_rows - X.num_rows:
        screen.say(f"{lost:,} rows without a target are left out")
    _fit(model, X, y, screen)
    types = {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
    digest = _digest(source.path)
    notes = {"source": source.path.name, "target": options.target, "rows": X.num_rows, "types": types, "sha256": digest}
    return model, task, notes


def _over_blocks(
    options: argparse.Namespace, settings: dict[str, Any], screen: Screen
) -> tuple[Any, str, dict[str, Any]]:
    """The same for data in blocks: the search looks at a sample, the winner's kernel is fitted to all rows."""
    with blocks_of(options, target=options.target) as blocks:
        task = _task(options, blocks.sample(SAMPLE, options.seed).y)
        model = _estimator(task, settings)
        model.set_params(verbose=int(screen.live))  # a bar for each pass over the blocks
        columns = len(blocks.names or ())
        size = f"{blocks.n_rows:,} rows in {len(blocks.items):,} blocks, {columns} columns"
        screen.say(f"{options.data}: {size}; {options.target} is a {task} target")
        model.fit(blocks).set_params(verbose=0)
        notes = {"source": str(options.data), "target": options.target, "rows": blocks.n_rows}
    return model, task, notes


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What the estimator is made with, checked before anything is read."""
    from gramian.kernels.parse import parse
    from gramian.kernels.resolve import names
    from gramian.resources import memory_budget

    if options.cv < 2:
        raise ValueError(f"--cv must be 2 or more, got {options.cv}.")
    if not options.time_limit > 0:
        raise ValueError(f"--time-limit must be positive, got {options.time_limit:g}.")
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"--seed must be between 0 and 2^32 - 1, got {options.seed}.")
    if options.memory is not None:
        memory_budget(options.memory)
    kernel = options.kernel
    if kernel is not None and kernel not in names():
        kernel = parse(kernel)
    return {
        "time_limit": int(options.time_limit) if options.time_limit.is_integer() else options.time_limit,
        "memory": options.memory,
        "cv": options.cv,
        "machines": "auto" if options.model == "auto" else [options.model],
        "kernel": kernel,
        "random_state": options.seed,
    }


def _task(options: argparse.Namespace, y: Any) -> str:
    """Classes are text, booleans, or few different whole numbers; all else is regression."""
    import numpy as np

    different = np.unique(y)
    if different.size < 2:
        raise ValueError(f"--target {options.target} has only one value, {different[0]!s}; there is nothing to learn.")
    text = y.dtype.kind not in "biuf"
    if options.task == "regression" and (text or y.dtype.kind == "b"):
        raise ValueError(
            f"--target {options.target} holds no numbers, so --task regression is not possible; leave it out."
        )
    whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and bool(np.all(different == np.round(different))))
    if options.task == "classification" and not (text or whole):
        raise ValueError(
            f"--target {options.target} holds fractions, so --task classification is not possible; leave it out."
        )
    if options.task != "auto":
        return str(options.task)
    return "classification" if text or y.dtype.kind == "b" or (whole and different.size <= FEW) else "regression"


def _estimator(task: str, settings: dict[str, Any]) -> Any:
    from gramian import AutoKernelClassifier, AutoKernelRegressor

    return (AutoKernelRegressor if task == "regression" else AutoKernelClassifier)(**settings)


def _fit(model: Any, X: Any, y: Any, screen: Screen) -> None:
    with screen.leaderboard() as watch:
        if watch is not None:
            model._observer = watch
        try:
            model.fit(X, y)
        finally:
            vars(model).pop("_observer", None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def python(options: argparse.Namespace, task: str, settings: dict[str, Any]) -> str:
    """Return the same in Python, to copy."""
    estimator = "AutoKernelRegressor" if task == "regression" else "AutoKernelClassifier"
    shown = {k: v for k, v in settings.items() if v is not None and (k, v) not in (("cv", 5), ("machines", "auto"))}
    expression = shown.get("kernel")
    of_text = expression is not None and not isinstance(expression, str)
    given = [f"{k}=parse({str(v)!r})" if k == "kernel" and of_text else f"{k}={v!r}" for k, v in shown.items()]
    parsing = ["from gramian.kernels.parse import parse"] if of_text else []
    data = [
        "from gramian.data.tables import read_table, split_target",
        *parsing,
        "",
        f"X, y = split_target(read_table({str(options.data)!r}), {options.target!r})",
        f"model = {estimator}({', '.join(given)}).fit(X, y)",
    ]
    if is_spread(options):
        blocks = f"Blocks({str(options.data)!r}, target={options.target!r}, client=client)"
        data = [
            "from gramian.data import Blocks, connect",
            *parsing,
            "",
            f"with connect(workers={options.workers!r}, cluster={options.cluster!r}) as client:",
            f"    model = {estimator}({', '.join(given)}).fit({blocks})",
        ]
    lines = [
        f"from gramian import {estimator}, save",
        *data,
        f"save(model, {str(options.out)!r})",
    ]
    return "\n".join(lines)


def _tell(model: Any, options: argparse.Namespace, code: str, screen: Screen) -> None:
    best, board = model.best_trial_, model.leaderboard_
    screen.say()
    screen.say(str(board))
    screen.say()
    screen.say(f"{best.name}: {board.metric} {best.score:.4g} ± {best.spread:.2g} on rows held out", "bold")
    for trial in board:
        if trial.baseline and trial.ok:
            screen.say(f"   {_against(best, trial)}")
    if best.kernel:
        screen.say(f"kernel: {_rounded(best.kernel)}")
    screen.say(f"fitted to all rows: {model.refit_}")
    screen.say(f"certificate: {model.certificate_}")
    screen.say(f"saved: {options.out}")
    screen.say("\nin Python:\n")
    screen.say("\n".join(f"    {line}" for line in code.splitlines()))
    screen.say(f"\nnext: gramian predict {options.out} NEW_DATA -o predictions.csv")


def _rounded(expression: str) -> str:
    """An expression with four digits of each number, for reading."""
    text = re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda found: f"{float(found[0]):.4g}", expression)
    return text if len(text) <= WIDE else f"{text[:WIDE]}... (gramian inspect shows all)"


def _against(best: Any, baseline: Any) -> str:
    """How much better than a baseline, which is said too where it is worse."""
    if baseline.score == 0:
        return f"{baseline.name}: {baseline.score:.4g}, which cannot be beaten"
    gain = 1.0 - best.score / baseline.score
    return f"{abs(gain):.1%} {'below' if gain >= 0 else 'ABOVE'} {baseline.name}'s {baseline.score:.4g}"
