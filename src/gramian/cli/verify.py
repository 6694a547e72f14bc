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
    parser.add_argument("--weight", metavar="COLUMN", help="the column of row weights, if the fit had weights")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print both certificates, and whether they agree."""
    from gramian.data.tables import read_table, split_target
    from gramian.verification import agree, verify

    model, notes = saved(options)
    table = read_table(options.data)
    target, weight, y = options.target or notes.get("target"), None, None
    if options.weight is not None:
        table, weight = split_target(table, options.weight)
    if target is not None:
        table, y = split_target(table, target)
    names = getattr(model, "feature_names_in_", table.column_names)
    said, found = model.certificate_, verify(model, inputs_of(model, table.select(list(names))), y, weight)
    same = agree(said, found, getattr(model, "tol", None))
    for name in ("kind", "converged", "primal", "dual", "gap", "violation"):
        texts = [_text(getattr(certificate, name)) for certificate in (said, found)]
        if texts != ["nan", "nan"]:  # not every certificate has every figure
            screen.say(f"{name:<10} saved {texts[0]:<16} recomputed {texts[1]}")
    screen.say(f"recomputed: {found}")
    screen.say("They agree." if same else "They DISAGREE; please report this model.", "bold")
    return {"said": said.to_dict(), "verified": found.to_dict(), "agree": same}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
