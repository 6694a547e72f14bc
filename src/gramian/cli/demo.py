"""``gramian demo``: fit, predict and report on handwritten digits."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen

HELP = "from a table to a model, predictions and a report, on handwritten digits"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("--out", metavar="FOLDER", help="where to leave the files (default: a new temporary folder)")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="for the fit (default: 60)")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write two tables, fit on one, predict the other, and compare."""
    import gramian.data.formats  # noqa: F401  which says what to install

    folder = Path(options.out or tempfile.mkdtemp(prefix="gramian-demo-"))
    folder.mkdir(exist_ok=True)
    old, new = _tables(folder)
    model, out, page = folder / "model", folder / "predictions.csv", folder / "report.html"
    screen.say("Handwritten digits, 8 x 8 pixels each: 1,347 to learn from, 450 new ones to read.\n")
    limit = f"{options.time_limit:g}"
    fitted = _step(screen, "fit", old, "--target", "digit", "--time-limit", limit, "--out", model)
    _step(screen, "predict", model, new, "--proba", "-o", out)
    judged = _judged(old, new, out)
    screen.say(
        f"\nOf {judged['rows']} new digits the model misreads {judged['wrong']}; a linear model misreads "
        f"{judged['linear']}.",
        "bold",
    )
    try:
        report = _step(screen, "report", model, new, "-o", page)["report"]
    except ImportError as error:
        screen.say(f"no report: {error}")
        report = None
    screen.say(f"\nEverything is in {folder}: tables, model, predictions{', report' if report else ''}.")
    return {"folder": str(folder), **judged, "report": report, "fit": fitted}


def _tables(folder: Path) -> tuple[Path, Path]:
    import pyarrow
    import pyarrow.csv
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    names = [f"p{row}{column}" for row in range(8) for column in range(8)]
    old, new = folder / "digits.csv", folder / "new.csv"
    for path, part in zip((old, new), train_test_split(range(len(y)), test_size=450, random_state=0), strict=True):
        columns = {n: X[part, j].astype(int) for j, n in enumerate(names)}
        pyarrow.csv.write_csv(pyarrow.table({**columns, "digit": y[part]}), path)
    return old, new


def _step(screen: Screen, *words: str | Path) -> Any:
    """Run a command as a person would type it."""
    from gramian.cli.main import parser

    arguments = [str(word) for word in words]
    screen.say(f"$ gramian {' '.join(arguments)}", "bold")
    options = parser().parse_args(arguments)
    found = options.run(options, screen)
    screen.say()
    return found


def _judged(old: Path, new: Path, predicted: Path) -> dict[str, int]:
    """How many of the new digits are misread: by the model, and by the best of linear machines."""
    import numpy as np
    from sklearn.linear_model import RidgeClassifierCV

    from gramian.data.tables import read_table, split_target

    (X, y), (Z, truth) = (split_target(read_table(path), "digit") for path in (old, new))
    rows = [np.column_stack([c.to_numpy() for c in table.itercolumns()]).astype(float) for table in (X, Z)]
    linear = RidgeClassifierCV(np.logspace(-3, 3, 13)).fit(rows[0], y).predict(rows[1])
    ours = read_table(predicted)["prediction"].to_numpy()
    return {"rows": len(truth), "wrong": int(np.sum(ours != truth)), "linear": int(np.sum(linear != truth))}
