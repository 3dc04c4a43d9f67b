"""Every input and every option of a tool kind is named in the code of its tool, so that none is accepted and does
nothing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import noetl
from noetl.net.kinds import COMMON_SPEC
from noetl.tools.kinds import KINDS
from noetl.tools.registry import BUILT_IN

SRC = Path(noetl.__path__[0]).parent
# What holds for every kind is read where tasks are run, not by their tools.
RUNNING = ("worker", "engine", "events")
# Limits of processes are read by the tools that start some, and documented as hints elsewhere.
OF_SOME_TOOLS = {
    "resources": {"python", "shell", "script", "duckdb", "convert", "container", "dbt", "dlt", "dask", "ray"}
}
# Decided where steps without tools are; `log` writes whatever it is given, by name.
READ_ELSEWHERE = {"noop": {"args", "place"}, "log": {"args", "level"}}

TOOLS = {written.partition(":")[2] for written in BUILT_IN.values()}


@cache
def words_and_imports(module: str, tool: str = "") -> tuple[frozenset[str], frozenset[str]]:
    """The names and texts in a module, and the modules of tools that it imports. Where a tool is named, what the other
    tools of its module read does not count."""
    file = SRC / module.replace(".", "/")
    path = file.with_suffix(".py") if file.with_suffix(".py").is_file() else file / "__init__.py"
    words, imports = set(), set()
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module(body=[], type_ignores=[])
    tree.body = [node for node in tree.body if not tool or getattr(node, "name", tool) not in TOOLS - {tool}]
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                words.add(text)
                imports |= {text} if text.startswith("noetl.tools.") else set()  # what a child process runs
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                words.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                words.add(name)
            case ast.ImportFrom(module=str(name)) if name.startswith("noetl.tools") and ".kinds" not in name:
                imports |= {name, *(f"{name}.{one.name}" for one in node.names)}
    return frozenset(words), frozenset(imports)


def words_of_tool(kind: str) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    first, _, tool = BUILT_IN[kind].partition(":")
    left = [first]
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            words, imports = words_and_imports(module, tool if module == first else "")
            found |= words
            left += imports
    return found


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_every_input_and_option_of_a_kind_is_read_by_its_tool(kind: str) -> None:
    declared = {one.name for one in (*KINDS[kind].inputs, *KINDS[kind].spec)}

    assert declared - words_of_tool(kind) == READ_ELSEWHERE.get(kind, set())


@pytest.mark.parametrize("name", [one.name for one in COMMON_SPEC if one.name not in OF_SOME_TOOLS])
def test_options_of_every_kind_are_read_by_the_task_runner(name: str) -> None:
    files = [file for package in RUNNING for file in (SRC / "noetl" / package).rglob("*.py")]

    readers = [
        file for file in files if name in words_and_imports(".".join(file.relative_to(SRC).with_suffix("").parts))[0]
    ]

    assert readers, f"spec.{name} can be written on every task and does nothing"


@pytest.mark.parametrize(("name", "kinds"), OF_SOME_TOOLS.items())
def test_options_shared_by_some_tools_are_read_by_those(name: str, kinds: set[str]) -> None:
    assert {kind for kind in BUILT_IN if name in words_of_tool(kind)} >= kinds
