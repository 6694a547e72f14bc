"""``gramian warmup``."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from gramian import compiled
from gramian.cli import main
from gramian.progress import announce, progress


def test_everything_is_compiled_and_the_cache_named(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("gramian")
    monkeypatch.setattr(logger, "level", logger.level)
    assert main(["warmup", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert "svm" in first["cache"]
    before = compiled.ANNOUNCER.compiled
    assert main(["warmup"]) == 0
    assert compiled.ANNOUNCER.compiled == before  # nothing is left to compile
    assert first["cache"] in capsys.readouterr().out


def test_compiling_is_announced_on_the_log_and_on_the_bar(caplog: Any, capsys: Any) -> None:
    compiled._announce_compiling.cache_clear()
    with caplog.at_level(logging.WARNING, "gramian"), progress(True, "a fit"):
        compiled._announce_compiling()
        compiled._announce_compiling()
        announce("compiling")
    assert sum("compiling once" in record.message for record in caplog.records) == 1
    assert "compiling" in capsys.readouterr().out


def test_only_functions_of_this_package_are_announced() -> None:
    from numba import njit

    before = compiled.ANNOUNCER.compiled
    njit(lambda x: x + 1)(1)
    assert compiled.ANNOUNCER.compiled == before
