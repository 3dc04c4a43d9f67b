"""Settings: each is described, in the order of the class, and read by the code that it is for."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from noetl.base.settings import DESCRIPTIONS, Settings
from noetl.server.configuration import Quotas, ServerSettings

SRC = Path(__file__).parents[2] / "src" / "noetl"


@cache
def read_settings() -> set[str]:
    """The attributes that the command line, embedded runs and tools read of `settings`."""
    found = set()
    for file in (file for package in ("cli", "operations", "tools") for file in (SRC / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] in ("settings", "chosen"):
                found.add(node.attr)
    return found


def test_every_setting_is_described_in_order() -> None:
    assert list(DESCRIPTIONS) == list(Settings.__struct_fields__)


@cache
def read_in_server() -> set[str]:
    files = [file for package in ("server", "control", "worker") for file in (SRC / package).rglob("*.py")]
    trees = [ast.parse(file.read_text()) for file in files if file.name != "configuration.py"]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("name", [*ServerSettings.__struct_fields__, *Quotas.__struct_fields__])
def test_a_setting_of_the_server_is_read_there(name: str) -> None:
    # The command line reads every setting to hand it on: that alone does nothing.
    assert name in read_in_server()


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_setting_is_read(name: str) -> None:
    assert name in read_settings(), f"{name} can be set and does nothing"
