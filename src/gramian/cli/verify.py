"""``gramian verify``: recompute the certificate of a saved model from its data."""

from __future__ import annotations

import argparse
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, TARGET, inputs_of, saved

HELP = "recompute the certificate of a saved model"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument("data", help="the table that it was fitted to")
    parser.add_argument("--target", help=TARGET)
    parser.add_argument("--weight", metavar="COLUMN", help="the column of row weights (default: the one of the fit)")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print both certificates, and whether they agree."""
    from gramian.data.tables import in_order, open_table, split_target
    from gramian.verification import agree, verify

    model, notes = saved(options)
    target, name = options.target or notes.get("target"), options.weight or notes.get("weight")
    source, time = open_table(options.data), notes.get("time_column")
    source.require([column for column in (target, name, time) if column is not None])
    table = in_order(source.read(), time)
    weight = y = None
    if target is not None:
        table, y = split_target(table, target)
    if name is not None:
        table, weight = split_target(table, name)
    names = getattr(model, "feature_names_in_", table.column_names)
    source.require(list(names))
    said, found = model.certificate_, verify(model, inputs_of(model, table.select(list(names))), y, weight)
    same = agree(said, found, getattr(model, "tol", None))
    for name in ("kind", "converged", "primal", "dual", "gap", "violation"):
        texts = [_text(getattr(certificate, name)) for certificate in (said, found)]
        if texts != ["nan", "nan"]:  # not every certificate has every figure
            screen.say(f"{name:<10} saved {texts[0]:<16} recomputed {texts[1]}")
    screen.say(f"recomputed: {found}")
    wrong = "They DISAGREE. If this is the table that the model was fitted to, please report it as a bug."
    screen.say("They agree." if same else wrong, "bold")
    return {"said": said.to_dict(), "verified": found.to_dict(), "agree": same}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
