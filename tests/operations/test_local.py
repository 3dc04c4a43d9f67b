"""One port for what people ask: a server's client and a local store have the same calls, and commands hold no rules."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.client import AsyncClient
from noetl.operations.local import LocalOperations

SOURCE = Path(__file__).parents[2] / "src" / "noetl"

# What only a local store can do: a server gives no credential out, takes no token that was chosen, and deletes no
# history on request.
LOCAL_ALONE = {"adopt_token", "check_credential", "delete_executions", "executions_to_delete"}

# The one module that chooses between a server and a store.
CHOOSES = "connection.py"

# Whoever uses these knows which of the two it talks to.
TELLING_APART = {
    "server_meant",
    "find_server",
    "ServerPlace",
    "StorePlace",
    "LocalOperations",
    "AsyncClient",
    "RemoteRecords",
}

# Who may know, and why.
KNOW = {
    "doctor.py": {"server_meant"},  # it examines the connection itself: is there a server, does it answer?
    "embedded_runs.py": {"StorePlace"},  # drives the execution in this process: no server would let it
}


def calls(kind: type) -> Iterator[str]:
    for name, member in inspect.getmembers(kind):
        is_call = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        if not name.startswith("_") and is_call:
            yield name


@pytest.mark.parametrize("name", sorted(set(calls(LocalOperations)) - LOCAL_ALONE))
def test_a_call_on_a_local_store_has_the_signature_of_the_client(name: str) -> None:
    here, there = getattr(LocalOperations, name), getattr(AsyncClient, name, None)

    assert there is not None, f"AsyncClient has no {name}: whoever uses a server cannot ask for it"
    assert inspect.signature(here) == inspect.signature(there)


def at_run_time(path: Path) -> ast.Module:
    """The code of a module as it runs, without its annotations."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                node.body = []
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
    return tree


def imported(path: Path) -> set[str]:
    """Modules that a module imports when it runs."""
    tree = at_run_time(path)
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module is not None}


@pytest.mark.parametrize("path", sorted((SOURCE / "cli").glob("*.py")), ids=lambda path: path.name)
def test_no_command_both_opens_a_store_and_calls_a_server(path: Path) -> None:
    """A command that does both has two implementations of what it asks for, and they drift."""
    if path.name == CHOOSES:
        return
    modules = imported(path)

    opens = {name for name in modules if name in ("noetl.store.open_store", "noetl.control.executions")}
    talks = {name for name in modules if name.startswith("noetl.client")}
    assert not (opens and talks), f"{path.name} opens a store and talks to a server: ask through cli/connection.py"


@pytest.mark.parametrize("path", sorted((SOURCE / "cli").glob("*.py")), ids=lambda path: path.name)
def test_no_command_branches_on_server_or_store(path: Path) -> None:
    """Only a command that must know may know; everything else would become a second implementation of a rule."""
    if path.name == CHOOSES:
        return
    tree = at_run_time(path)

    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names & TELLING_APART == KNOW.get(path.name, set())


@pytest.mark.parametrize("path", sorted((SOURCE / "server" / "routes").glob("*.py")), ids=lambda path: path.name)
def test_client_shapes_are_defined_once(path: Path) -> None:
    """A class of a route with the name of a shared shape would be a second statement of it."""
    shared = [classes(SOURCE / "operations" / name) for name in ("api_shapes.py", "administration_shapes.py")]

    assert not classes(path) & set().union(*shared)


def classes(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
