"""``gramian verify``: the certificate of a saved model, computed again from its data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser("verify", parents=[common], help="compute the certificate of a saved model again")
    parser.add_argument("model", help="the folder of a saved model")
    parser.add_argument("data", help="the table that it was fitted to")
    parser.add_argument("--target", help="the column that it predicts (default: the one it was fitted on)")
    parser.add_argument("--weight", metavar="COLUMN", help="weights of the rows, where the fit had weights")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print both certificates, and whether they agree."""
    from gramian.cli.predict import matrix_of
    from gramian.data.tables import read_table, split_target
    from gramian.files import inspect, load
    from gramian.verification import agree, verify

    model = load(options.model)
    table = read_table(options.data)
    target = options.target or inspect(options.model).data["notes"].get("target")
    weight = y = None
    if options.weight is not None:
        table, weight = split_target(table, options.weight)
    if target is not None:
        table, y = split_target(table, target)
    X = table if hasattr(model, "leaderboard_") else matrix_of(table.select(_names(model, table)))
    said, found = model.certificate_, verify(model, X, y, weight)
    same = agree(said, found, getattr(model, "tol", None))
    for name in ("kind", "converged", "primal", "dual", "gap", "violation"):
        screen.say(f"{name:<10} said {_text(getattr(said, name)):<16} verified {_text(getattr(found, name))}")
    screen.say(f"verified: {found}")
    screen.say("the two agree" if same else "the two DISAGREE; please report this model", "bold")
    return {"said": said.to_dict(), "verified": found.to_dict(), "agree": same}


def _names(model: Any, table: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return list(table.column_names) if names is None else [str(name) for name in names]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
