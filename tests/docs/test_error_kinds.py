"""Every kind of error that the code can give is in the specification (§5), where policies are written from.

Kinds are looked for in the source: what errors are made with, as text or as a constant that holds it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from noetl.tools.kinds import KINDS

ROOT = Path(__file__).parents[2]
_KIND = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*\Z")
_MAKERS = {"ToolError": 0, "Error": None}  # where the kind stands when it is no keyword


def listed() -> set[str]:
    text = (ROOT / "docs" / "spec" / "requirements.md").read_text("utf-8")
    return set(re.findall(r"`([a-z0-9_.]+)`", text.partition("Run-time error kinds:")[2].partition("---")[0]))


@cache
def trees() -> dict[str, ast.Module]:
    """Every module by its name."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts): ast.parse(path.read_text()) for path in paths
    }


@cache
def texts_of(module: str) -> dict[str, str]:
    """The texts that names of a module stand for, its own and those it imports."""
    found: dict[str, str] = {}
    for node in trees()[module].body if module in trees() else ():
        match node:
            case ast.ImportFrom(module=str(other), names=names) if other.startswith("noetl."):
                there = texts_of(other)
                found |= {one.asname or one.name: there[one.name] for one in names if one.name in there}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                found[name] = text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                for pair in pairs:
                    match pair:
                        case ast.Name(id=name), ast.Constant(value=str(text)):
                            found[name] = text
    return found


@cache
def raised() -> dict[str, str]:
    """Each kind with one place that gives it."""
    found = {"template.error": "noetl.base.errors"}  # the one kind that has an exception of its own
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found |= dict.fromkeys(_kinds(node, texts_of(module)), f"{module}:{node.lineno}")
    return found


def _kinds(call: ast.Call, named: dict[str, str]) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in _MAKERS:
        return
    position = _MAKERS[name]
    given = [word.value for word in call.keywords if word.arg == "kind"]
    given += call.args[position : position + 1] if position is not None else []
    for node in (part for one in given for part in _choices(one)):
        text = node.value if isinstance(node, ast.Constant) else named.get(getattr(node, "id", ""))
        if isinstance(text, str) and _KIND.match(text):
            yield text


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    """`a if condition else b` is both."""
    if isinstance(node, ast.IfExp):
        yield from (*_choices(node.body), *_choices(node.orelse))
    else:
        yield node


def test_the_search_finds_error_kinds_in_the_source() -> None:
    assert raised().keys() >= {
        "tool.not_allowed",
        "loop.reduce",
        "lease.lost",
        "result.too_large",
        "keychain.unresolved",
    }


@pytest.mark.req("OUT-03")
def test_every_error_kind_is_in_the_specification() -> None:
    assert {kind: place for kind, place in raised().items() if kind not in listed()} == {}


@pytest.mark.req("OUT-03")
def test_every_error_kind_that_a_tool_declares_is_in_the_specification() -> None:
    declared = {error for kind in KINDS.values() for error in kind.error_kinds}

    assert declared - listed() == set()
