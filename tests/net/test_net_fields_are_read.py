"""Every field of a compiled net is read by the code that runs it: no key of a playbook is accepted without an
effect."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import msgspec
import pytest

import noetl.net

SRC = Path(noetl.net.__path__[0]).parent
# Kept for people, and documented as hints that nothing acts on.
HINTS = {"Executor.placement", "Executor.cost"}
# Laid into every task by the compiler; shown with the net.
BEFORE_A_RUN = {"Executor.defaults", "Transition.desc"}


def fields() -> list[str]:
    found = set()
    for module in pkgutil.iter_modules(noetl.net.__path__, "noetl.net."):
        if module.name == "noetl.net.kinds":
            continue  # what tools declare, for the checker
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.name:
                found |= {f"{value.__name__}.{field}" for field in value.__struct_fields__}
    return sorted(found)


def read_names() -> set[str]:
    """The attributes that anything but the compiler and tests of tools reads. What is called is no field of a net."""
    found = set()
    for file in SRC.rglob("*.py"):
        if not {"compiling", "testing"} & set(file.parts):
            tree = ast.parse(file.read_text())
            called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            found |= {
                node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and id(node) not in called
            }
            found |= {word for node in ast.walk(tree) if isinstance(node, ast.MatchClass) for word in node.kwd_attrs}
    return found


def test_every_field_of_a_net_is_read() -> None:
    read = read_names()

    assert {field for field in fields() if field.partition(".")[2] not in read} == HINTS | BEFORE_A_RUN


@pytest.mark.parametrize("field", sorted(HINTS))
def test_a_hint_field_is_documented_as_a_hint(field: str) -> None:
    key = field.partition(".")[2]
    (row,) = [
        line
        for line in (SRC.parents[1] / "docs/dsl/keys.md").read_text().splitlines()
        if line.startswith(f"| `{key}` |")
    ]

    assert "nothing acts on it" in row
