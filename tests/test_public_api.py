"""No public name, parameter or member is lost: ``public_api.json`` lists what was there before."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

LISTED = json.loads((Path(__file__).parent / "public_api.json").read_text())
COMMANDS = {"fit", "predict", "serve", "export", "inspect", "explain", "report", "demo", "verify", "play"}


@pytest.mark.parametrize("name", LISTED)
def test_public_names_keep_their_parameters_and_members(name):
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    given = value._get_param_names() if hasattr(value, "_get_param_names") else None
    if LISTED[name]["parameters"] and given is None:
        given = list(inspect.signature(value).parameters)
    assert set(LISTED[name]["parameters"]) <= set(given or ())
    assert set(LISTED[name]["members"]) <= set(dir(value))


def test_no_command_is_lost(capsys):
    from gramian.cli import main

    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"\n    {command}" in shown for command in COMMANDS)


def test_signatures_begin_with_what_people_set_first():
    first = {"SVC": ["C", "kernel"], "SVR": ["C", "epsilon", "kernel"], "KernelRidge": ["alpha", "kernel"]}
    for name, expected in first.items():
        given = list(inspect.signature(getattr(importlib.import_module("gramian"), name)).parameters)
        assert given[: len(expected)] == expected
