"""Settings: each is described, in the order of the class, and read by the code that it is for."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from noetl.base.settings import DESCRIPTIONS, Settings

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


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_setting_is_read(name: str) -> None:
    assert name in read_settings(), f"{name} can be set and does nothing"
