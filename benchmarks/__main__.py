"""``python -m benchmarks [CASE ...]``: run the cases named, or all of them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import cases, harness


def main() -> None:
    """Run the benchmarks asked for and print the table."""
    cases.load_all()
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.case) - set(harness.CASES):
        parser.error(f"no case named {', '.join(sorted(unknown))}; there are: {', '.join(sorted(harness.CASES))}")
    if options.list:
        print("\n".join(sorted(harness.CASES)))
        return
    facts = harness.machine()
    # Progress goes to stderr, so that what stands on stdout can be kept.
    rows = harness.run(options.case or sorted(harness.CASES), Console(stderr=True), options.repeats)
    if options.markdown:
        print(f"{harness.describe(facts)}\n\n{harness.markdown(rows)}")
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        console.print(harness.describe(facts), highlight=False)
        console.print(harness.table(rows))
    if options.json:
        report = {"machine": facts, "rows": [row.to_dict() for row in rows]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("case", nargs="*", help="a case to run; default: all of them")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--repeats", type=int, help="timed calls of each side, whatever the case says")
    parser.add_argument("--markdown", action="store_true", help="print a table for RESULTS.md")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save every measurement")
    return parser


if __name__ == "__main__":
    main()
