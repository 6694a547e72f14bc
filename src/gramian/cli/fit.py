"""``gramian fit``: a tuned model from a table."""

from __future__ import annotations

import argparse
import hashlib
import time
from itertools import groupby
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill, wrap
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import add_options, blocks_of, check_free, is_spread, named_columns
from gramian.cli.warmup import compile_for_search
from gramian.numerals import counted, written
from gramian.progress import Clock

HELP = "tune a model on a table and save it"
DESCRIPTION = "Read a table, try kernel machines by cross-validation, fit the best to all rows, and save it."
FEW = 10
"""A target with at most this many different whole numbers is treated as classes."""
UNIQUE, LEAST = 0.5, 20
"""A target of texts that has more than this share of different ones is refused, from so many rows on."""
SAMPLE = 10_000
"""Rows sampled from data in blocks to tell classes from numbers."""
WIDE = 100
"""Longest line of text, in characters."""
WORDS = {
    "number": "a number",
    "category": "a category",
    "date": "a date",
    "text": "free text",
    "drop": "unused",
    "id": "an identifier, which is unused",
}
"""How a column can be read, by option."""
METRIC = """what to judge by: log_loss (default for classes), error, accuracy, roc_auc, average_precision,
balanced_accuracy, f1; rmse (default for numbers), mae, r2, pinball-0.9 (any quantile); or a scorer of scikit-learn"""
FIT = 0.25
"""Share of the time limit reserved for the fit, even if reading the data and compiling took longer."""
END = (0.3, 0.05)
"""The end of the command takes about this share of what its start took, and gets at most this share of the limit."""
LISTED, TRIALS, ALIKE = 40, 15, 4
"""Lines on how columns were read, and trials with their scores; more columns than this that are alike share a line."""
SHOWN = ("", "trial", "score", "rows", "fit", "status")
"""Columns of the leaderboard that are printed."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument(
        "data",
        help="the table: .csv, .parquet, .arrow, .feather, .jsonl, .npy or .npz; or a folder or a quoted pattern of "
        "tables of numbers, which need not fit in memory",
    )
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to save the model")
    parser.add_argument("--force", action="store_true", help="overwrite an existing model")
    columns = parser.add_argument_group("columns", "Each takes several names, separated by commas, or is repeated.")
    for word, meaning in WORDS.items():
        columns.add_argument(
            f"--{word}", action="append", default=[], metavar="COLUMN", help=f"treat the column as {meaning}"
        )
    models = parser.add_argument_group("models")
    task = "classes are texts, yes or no, and at most ten different whole numbers, unless this says otherwise"
    models.add_argument("--task", choices=["auto", "regression", "classification"], default="auto", help=task)
    machines = ["auto", "ridge", "svm", "gp", "machine", "linear"]
    models.add_argument("--model", choices=machines, default="auto", help="try this kind only (default: all)")
    models.add_argument("--kernel", metavar="EXPR", help="the only kernel to try, such as '2*RBF(0.5)+Linear()'")
    judging = parser.add_argument_group("scores and weights")
    judging.add_argument("--metric", metavar="NAME", help=METRIC)
    judging.add_argument("--class-weight", choices=["balanced"], help="predict rare classes more often")
    judging.add_argument("--weight", metavar="COLUMN", help="the column of row weights, not used as an input")
    split = judging.add_mutually_exclusive_group()
    split.add_argument(
        "--group", metavar="COLUMN", help="hold out rows with equal values together; not used as an input"
    )
    split.add_argument("--time-column", metavar="COLUMN", help="sort by this column, and judge by later rows")
    judging.add_argument("--cv", type=int, default=5, help="folds of the cross-validation (default: %(default)s)")
    resources = parser.add_argument_group("resources")
    resources.add_argument(
        "--time-limit", type=float, default=60.0, metavar="SECONDS", help="of search and fit (default: %(default)g)"
    )
    resources.add_argument("--memory", help="the most memory to use, such as 4GB (default: half of what is free)")
    resources.add_argument("--device", metavar="NAME", help="a GPU to try and fit models on: cuda, cuda:1, or auto")
    resources.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: %(default)s)")
    add_options(resources)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Fit and save."""
    began = time.perf_counter()
    from gramian.files import save
    from gramian.files.write import check_folder

    settings = _settings(options)
    check_folder(Path(options.out))
    check_free(Path(options.out), options.force)
    model, task, notes = (_over_blocks if is_spread(options) else _on_a_table)(options, settings, began, screen)
    save(model, options.out, data=notes)
    code = _python(options, task, model.get_params(deep=False))
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
        "columns": {column.name: str(column) for column in model.columns_.columns},
        "refit": model.refit_,
        "explanation": model.explain(),
        "seconds": time.perf_counter() - began,
        "python": code,
    }


def _on_a_table(options: Any, settings: dict[str, Any], began: float, screen: Screen) -> tuple[Any, str, Any]:
    """Fit to a single file: the model, the task, and notes about the data."""
    from gramian.data.tables import in_order, open_table, split_target
    from gramian.estimators.auto.base import fit_by_clock

    source = open_table(options.data)
    roles = [name for name in (options.weight, options.group, options.time_column) if name is not None]
    source.require([options.target, *roles])
    table = source.read()
    X, y = split_target(in_order(table, options.time_column), options.target)
    X, beside = _beside(options, X)
    task = _task(options, y)
    settings = settings | _judged(options, task) | {"columns": _words(options, X.column_names)}
    model = _estimator(task, settings)
    columns = counted(X.num_columns, "column")
    screen.say(f"{options.data}: {X.num_rows:,} rows, {columns}; {options.target} is a {task} target")
    if lost := table.num_rows - X.num_rows:
        screen.say(f"{counted(lost, 'row')} without a target left out")
    with screen.search() as watch:
        fit_by_clock(model, X, y, _clock(options.time_limit, began), watch, **beside)
    types = {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    notes = {"source": source.path.name, "target": options.target, "rows": X.num_rows, "types": types, "sha256": digest}
    notes |= {role: name for role in ("weight", "time_column") if (name := getattr(options, role)) is not None}
    notes["columns"] = {column.name: str(column) for column in model.columns_.columns}
    return model, task, notes


def _over_blocks(options: Any, settings: dict[str, Any], began: float, screen: Screen) -> tuple[Any, str, Any]:
    """Fit to data in blocks: search on a sample, then fit the winner's kernel to all rows."""
    from gramian.estimators.auto.base import fit_by_clock

    for name in ("weight", "group", "time_column"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} works on single files only; put all rows into one file.")
    with blocks_of(options, target=options.target) as blocks:
        task = _task(options, blocks.sample(SAMPLE, options.seed).y)
        words = _words(options, [str(name) for name in blocks.names or ()])
        model = _estimator(task, settings | _judged(options, task) | {"columns": words})
        model.set_params(verbose=int(screen.live))  # a bar for each pass over the blocks
        columns = len(blocks.names or ())
        size = f"{blocks.n_rows:,} rows in {len(blocks.items):,} blocks, {columns} columns"
        screen.say(f"{options.data}: {size}; {options.target} is a {task} target")
        fit_by_clock(model, blocks, None, _clock(options.time_limit, began)).set_params(verbose=0)
        notes = {"source": str(options.data), "target": options.target, "rows": blocks.n_rows}
    return model, task, notes


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Parameters of the estimator, checked before anything is read."""
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
        "device": _device(options.device),
    }


def _device(name: str | None) -> str | None:
    """A device that is there."""
    from gramian.gram.device import device_for

    try:
        device_for(name, None)
    except RuntimeError as error:  # torch finds no such GPU
        raise ValueError(str(error).replace("device=None", "another --device, or none")) from error
    return name


def _judged(options: argparse.Namespace, task: str) -> dict[str, Any]:
    """Parameters that say how to judge, and on which rows."""
    found: dict[str, Any] = {} if options.metric is None else {"scoring": options.metric}
    if options.class_weight is not None:
        if task == "regression":
            raise ValueError(f"--class-weight is for classes, but {options.target} is a number; leave it out.")
        found["class_weight"] = options.class_weight
    if options.time_column is not None:
        from sklearn.model_selection import TimeSeriesSplit

        found["cv"] = TimeSeriesSplit(options.cv)
    return found


def _beside(options: argparse.Namespace, X: Any) -> tuple[Any, dict[str, Any]]:
    """The inputs, and the weights and groups that fit takes as well."""
    given = {"sample_weight": options.weight, "groups": options.group}
    found = {argument: X[name].to_numpy() for argument, name in given.items() if name is not None}
    if (weights := found.get("sample_weight")) is not None:
        if weights.dtype.kind not in "biuf":
            raise ValueError(f"--weight {options.weight} must be a column of numbers, got {X[options.weight].type}.")
        if gaps := int((weights != weights).sum()):
            raise ValueError(f"--weight {options.weight} must be a number in every row, but {gaps:,} rows have none.")
    return X.drop_columns([name for name in given.values() if name is not None]), found


def _words(options: argparse.Namespace, names: list[str]) -> dict[str, str] | None:
    """How the user wants columns to be read, by name."""
    found: dict[str, str] = {}
    for word in WORDS:
        if aside := {options.target, options.weight, options.group}.intersection(getattr(options, word)):
            raise ValueError(f"--{word} {min(aside)}: this column is the target, weight or group, and not an input.")
        for name in named_columns(getattr(options, word), names, f"--{word}"):
            if name in found:
                raise ValueError(f"column {name!r} is given as {WORDS[found[name]]} and as {WORDS[word]}; choose one.")
            found[name] = word
    return found or None


def _task(options: argparse.Namespace, y: Any) -> str:
    """Classes are text, booleans, or few different whole numbers; all else is regression."""
    import numpy as np

    different = np.unique(y)
    if different.size < 2:
        raise ValueError(f"--target {options.target} has only one value, {different[0]!s}; there is nothing to learn.")
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(f"--target {options.target} contains infinity; leave such rows out, or their target empty.")
    labels = y.dtype.kind not in "iuf"  # text or booleans
    fractions = y.dtype.kind == "f" and not np.all(different == np.round(different))
    if (options.task == "regression" and labels) or (options.task == "classification" and fractions):
        what = "values that are not numbers" if labels else "fractions"
        raise ValueError(
            f"--target {options.target} holds {what}, so --task {options.task} is not possible; leave it out."
        )
    if y.dtype.kind in "US" and different.size > UNIQUE * y.size >= UNIQUE * LEAST:
        raise ValueError(
            f"--target {options.target} holds {different.size:,} different texts in {y.size:,} rows, such as "
            f"{different[0]!s}; classes must repeat, and numbers be written as 1234.5."
        )
    few = labels or (not fractions and different.size <= FEW)
    return {"auto": "classification" if few else "regression"}.get(options.task, options.task)


def _estimator(task: str, settings: dict[str, Any]) -> Any:
    from gramian import AutoKernelClassifier, AutoKernelRegressor

    return (AutoKernelRegressor if task == "regression" else AutoKernelClassifier)(**settings)


def _clock(limit: float, began: float) -> Clock:
    """A clock that runs since the command began and counts compilation, but leaves the fit a share of the limit."""
    compile_for_search()
    now = time.perf_counter()
    spent = now - began
    spent += min(END[0] * spent, END[1] * limit)
    return Clock(limit, start=now - min(spent, (1.0 - FIT) * limit), now=time.perf_counter)


def _python(options: argparse.Namespace, task: str, settings: dict[str, Any]) -> str:
    """The same fit in Python, to copy."""
    estimator = "AutoKernelRegressor" if task == "regression" else "AutoKernelClassifier"
    plain = {"cv": 5, "machines": "auto", "verbose": 0, "target_scale": "auto"}
    shown = {k: repr(v) for k, v in settings.items() if v is not None and (k not in plain or v != plain[k])}
    imports = [f"from gramian import {estimator}, save"]
    if (kernel := settings["kernel"]) is not None and not isinstance(kernel, str):
        shown["kernel"] = f"parse({str(kernel)!r})"
        imports.append("from gramian.kernels.parse import parse")
    if options.time_column:
        shown["cv"] = f"TimeSeriesSplit({options.cv})"
        imports.append("from sklearn.model_selection import TimeSeriesSplit")
    made = f"model = {estimator}({', '.join(f'{k}={v}' for k, v in shown.items())})"
    if is_spread(options):
        imports.append("from gramian.data import Blocks, connect")
        steps = [
            made,
            f"with connect(workers={options.workers!r}, cluster={options.cluster!r}) as client:",
            f"    model.fit(Blocks({str(options.data)!r}, target={options.target!r}, client=client))",
        ]
    else:
        read, tools = f"read_table({str(options.data)!r})", ["read_table", "split_target"]
        if options.time_column:
            read, tools = f"in_order({read}, {options.time_column!r})", ["in_order", *tools]
        imports.append(f"from gramian.data.tables import {', '.join(tools)}")
        beside = {"sample_weight": options.weight, "groups": options.group}
        beside = {argument: name for argument, name in beside.items() if name is not None}
        rows = f"X.drop_columns({list(beside.values())!r})" if beside else "X"
        passed = "".join(f", {argument}=X[{name!r}]" for argument, name in beside.items())
        steps = [f"X, y = split_target({read}, {options.target!r})", made, f"model.fit({rows}, y{passed})"]
    return "\n".join([*imports, "", *steps, f"save(model, {str(options.out)!r})"])


def _tell(model: Any, options: argparse.Namespace, code: str, screen: Screen) -> None:
    from gramian.estimators.auto.explain import explained
    from gramian.reports.facts import expression

    best, board = model.best_trial_, model.leaderboard_
    wide = min(get_terminal_size((WIDE, 0)).columns, WIDE)
    screen.say(f"\n{_listed(model.columns_.columns, wide)}\n\n{board.table(SHOWN, TRIALS)}")
    screen.say(f"and {len(board) - TRIALS} more\n" if len(board) > TRIALS else "")
    screen.say(f"{best.name}: {board.metric_name} {written(best.score, best.spread)} on held-out rows\n", "bold")
    lines = ["\n".join(wrap(part, wide, break_on_hyphens=False)) for part in explained(model, columns=False)]
    lines = ["\n\n".join(lines), ""]
    if best.kernel and best.machine != "linear":
        lines.append(f"kernel: {expression(best.kernel)}")
    lines += [
        f"certificate: {model.certificate_}",
        f"saved: {options.out}",
        "\nin Python:\n",
        *(f"    {line}".rstrip() for line in code.splitlines()),
        f"\nnext: gramian predict {options.out} NEW_DATA -o predictions.csv",
    ]
    screen.say("\n".join(lines))


def _listed(columns: Any, wide: int = WIDE) -> str:
    """How each column was read: an entry for each, or for several alike that follow one another."""
    lines = []
    for text, alike in groupby(columns, str):
        names = [column.name for column in alike]
        if len(names) > ALIKE:
            names = [f"{names[0]} to {names[-1]} ({len(names):,} columns)"]
        shown = (f"{name}: {text}" for name in names)
        lines += [fill(line, wide, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in shown]
    if len(lines) > LISTED:
        lines[LISTED:] = [f"    and {len(lines) - LISTED:,} more; gramian inspect shows all"]
    return "\n".join(["columns:", *lines])
