"""``gramian demo``: fit, predict and report on the prices of flats and on handwritten digits."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen

HELP = "from tables to models, predictions and reports: prices of flats, handwritten digits"
FLATS, NEW_FLATS, NEW_DIGITS = 900, 300, 450
"""Rows to learn from, and rows to predict."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("--out", metavar="FOLDER", help="where to leave the files (default: a new temporary folder)")
    parser.add_argument(
        "--time-limit", type=float, default=10.0, metavar="SECONDS", help="for each of the two fits (default: 10)"
    )


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write two tables, fit to one part of each, predict the rest, and compare with a linear model."""
    import gramian.data.formats  # noqa: F401  which says what to install

    folder = Path(options.out or tempfile.mkdtemp(prefix="gramian-demo-"))
    folder.mkdir(exist_ok=True)
    limit = f"{options.time_limit:g}"
    screen.say(
        f"Prices of flats, with districts, dates and gaps: {FLATS:,} rows to learn from, {NEW_FLATS:,} new ones. The "
        "table is synthetic.\n"
    )
    flats = _judged(screen, folder, "flats", _flats(folder), "price", limit, "--interval", "0.9")
    off, linear = (f"{flats[who]:,.0f}" for who in ("model", "linear"))
    screen.say(f"New prices are off by {off} on average, and by {linear} with a linear model.\n", "bold")
    screen.say("Handwritten digits, 8 x 8 pixels each: 1,347 to learn from, 450 new ones to read.\n")
    digits = _judged(screen, folder, "digits", _digits(folder), "digit", limit, "--proba")
    wrong, linear = (f"{digits[who]:.0f}" for who in ("model", "linear"))
    screen.say(
        f"Of {digits['rows']} new digits the model misreads {wrong}; a linear model misreads {linear}.\n", "bold"
    )
    screen.say(f"Everything is in {folder}: tables, models, predictions, reports.")
    return {"folder": str(folder), "flats": flats, "digits": digits}


def _judged(
    screen: Screen, folder: Path, name: str, tables: tuple[Path, Path], target: str, limit: str, *how: str
) -> dict[str, Any]:
    """Fit to one table, then predict and report on the other; the errors of the model and of a linear one."""
    (old, new), model, out = tables, folder / name, folder / f"{name}_predictions.csv"
    again = ["--force"] if model.exists() else []  # the folder of an earlier demo
    fitted = _step(screen, "fit", old, "--target", target, "--time-limit", limit, "--out", model, *again)
    _step(screen, "predict", model, new, *how, "-o", out, *again)
    try:
        page = _step(screen, "report", model, new, "-o", folder / f"{name}.html", *again)["report"]
    except ImportError as error:
        screen.say(f"no report: {error}")
        page = None
    return {**_errors(old, new, out, target), "report": page, "fit": fitted}


def _step(screen: Screen, *words: str | Path) -> Any:
    """Run a command as a person would type it."""
    from gramian.cli.main import parser

    arguments = [str(word) for word in words]
    screen.say(f"$ gramian {' '.join(arguments)}", "bold")
    options = parser().parse_args(arguments)
    found = options.run(options, screen)
    screen.say()
    return found


# ---- the tables ---------------------------------------------------------------------------------------------------


def _digits(folder: Path) -> tuple[Path, Path]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    names = [f"p{row}{column}" for row in range(8) for column in range(8)]
    columns = {n: X[:, j].astype(int) for j, n in enumerate(names)}
    return _split(folder, "digits", {**columns, "digit": y}, NEW_DIGITS)


def _flats(folder: Path) -> tuple[Path, Path]:
    """Synthetic flats with districts, heating, dates, balconies and gaps."""
    import numpy as np

    n, rng = FLATS + NEW_FLATS, np.random.default_rng(0)
    district = rng.choice(["Centre", "Docks", "Hill", "Meadows", "North", "Old Town", "Station", "West"], n)
    dear = dict(zip(sorted(set(district)), (1.5, 1.1, 1.4, 0.9, 0.7, 1.3, 0.8, 1.0), strict=True))
    area = np.round(np.exp(rng.normal(4.2, 0.4, n)), 1)
    built = rng.integers(1900, 2024, n)
    floor, balcony = rng.integers(0, 9, n), rng.random(n) < 0.6
    heating = rng.choice(["gas", "oil", "heat pump", "district"], n, p=[0.5, 0.2, 0.1, 0.2])
    days = rng.integers(0, 2500, n)
    value = 4200.0 * np.array([dear[d] for d in district]) * area**0.95
    value *= 1.0 + 0.25 * np.cos((built - 1900) / 40.0) + 0.00008 * days + 0.05 * balcony
    value *= np.where(heating == "oil", 0.93, 1.0) * np.where((floor > 4) & (built < 1950), 0.85, 1.0)
    price = np.round(value * np.exp(0.06 * rng.standard_normal(n)), -2).astype(int)
    sold = (np.datetime64("2018-01-01") + days).astype(str).astype(object)
    columns: dict[str, Any] = {"district": district.astype(object), "area": area.astype(object)}
    columns |= {"built": built.astype(object), "floor": floor, "heating": heating.astype(object)}
    for name, share in (("area", 0.03), ("built", 0.1), ("heating", 0.08)):
        columns[name][rng.random(n) < share] = None
    return _split(folder, "flats", {**columns, "balcony": balcony, "sold": sold, "price": price}, NEW_FLATS)


def _split(folder: Path, name: str, columns: dict[str, Any], count: int) -> tuple[Path, Path]:
    """Write some rows to one file, and so many to another."""
    import pyarrow
    import pyarrow.csv
    from sklearn.model_selection import train_test_split

    table = pyarrow.table({key: pyarrow.array(values) for key, values in columns.items()})
    old, new = folder / f"{name}.csv", folder / f"new_{name}.csv"
    parts = train_test_split(range(table.num_rows), test_size=count, random_state=0)
    for path, part in zip((old, new), parts, strict=True):
        pyarrow.csv.write_csv(table.take(part), path)
    return old, new


# ---- beside a linear model ----------------------------------------------------------------------------------------


def _errors(old: Path, new: Path, predicted: Path, target: str) -> dict[str, Any]:
    """Mean error on new rows, or how many are misread, by the model and by a linear one."""
    import numpy as np

    from gramian import AutoKernelClassifier, AutoKernelRegressor
    from gramian.data.tables import read_table, split_target

    (X, y), (Z, truth) = (split_target(read_table(path), target) for path in (old, new))
    few = np.unique(y).size <= 10
    linear = (AutoKernelClassifier if few else AutoKernelRegressor)(machines=["linear"], random_state=0).fit(X, y)
    both = (read_table(predicted)["prediction"].to_numpy(), linear.predict(Z))
    wrong = [float(np.sum(p != truth) if few else np.mean(np.abs(p - truth))) for p in both]
    return {"rows": len(truth), "model": wrong[0], "linear": wrong[1]}
