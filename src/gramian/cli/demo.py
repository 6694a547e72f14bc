"""``gramian demo``: fit, predict and report on handwritten digits."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "demo",
        parents=[common],
        help="from a table to a model, predictions and a report, on handwritten digits",
    )
    parser.add_argument("--out", metavar="FOLDER", help="where to leave the files (default: a new temporary folder)")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="of the fit (default: 60)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write two tables, fit on one, predict the other, and compare."""
    import gramian.data.formats  # noqa: F401  which says what to install

    folder = Path(options.out or tempfile.mkdtemp(prefix="gramian-demo-"))
    folder.mkdir(exist_ok=True)
    old, new = _tables(folder)
    screen.say("Handwritten digits, 8 x 8 pixels each: 1,347 to learn from, 450 new ones to read.\n")
    fitted = _step(
        screen,
        [
            "fit",
            str(old),
            "--target",
            "digit",
            "--time-limit",
            f"{options.time_limit:g}",
            "--out",
            str(folder / "model"),
        ],
    )
    out = folder / "predictions.csv"
    _step(screen, ["predict", str(folder / "model"), str(new), "--proba", "-o", str(out)])
    judged = _judged(old, new, out)
    screen.say(
        f"\nOf {judged['rows']} new digits the model misreads {judged['wrong']}; a linear model misreads "
        f"{judged['linear']}.",
        "bold",
    )
    page = _report(screen, folder, new)
    screen.say(f"\nEverything is in {folder}: tables, model, predictions{', report' if page else ''}.")
    return {"folder": str(folder), **judged, "report": page, "fit": fitted}


def _tables(folder: Path) -> tuple[Path, Path]:
    import pyarrow
    import pyarrow.csv
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    names = [f"p{row}{column}" for row in range(8) for column in range(8)]
    paths = []
    for name, part in zip(
        ("digits.csv", "new.csv"), train_test_split(range(len(y)), test_size=450, random_state=0), strict=True
    ):
        columns = {n: X[part, j].astype(int) for j, n in enumerate(names)}
        pyarrow.csv.write_csv(pyarrow.table({**columns, "digit": y[part]}), folder / name)
        paths.append(folder / name)
    return paths[0], paths[1]


def _step(screen: Screen, arguments: list[str]) -> dict[str, Any] | None:
    """Run a command as a person would type it."""
    from gramian.cli.main import _parser

    screen.say(f"$ gramian {' '.join(arguments)}", "bold")
    options = _parser().parse_args(arguments)
    found: dict[str, Any] | None = options.run(options, screen)
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


def _report(screen: Screen, folder: Path, new: Path) -> str | None:
    """A page about the model, where what it needs is installed."""
    try:
        found = _step(screen, ["report", str(folder / "model"), str(new), "-o", str(folder / "report.html")])
    except ImportError as error:
        screen.say(f"no report: {error}")
        return None
    return str(found["report"]) if found else None
