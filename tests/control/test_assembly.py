"""Every object of the control plane and the worker is complete after its constructor (docs/style.md §2)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.control.assembly import Assembly, assemble
from noetl.control.commit.effects import Listeners
from noetl.control.executions import Executions
from noetl.store.contract import Commit
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.control.control_plane import CHAIN
from tests.engine_script import net_of

SOURCE = Path(__file__).parents[2] / "src" / "noetl"
MODULES = sorted(path for package in ("control", "worker", "operations") for path in (SOURCE / package).rglob("*.py"))
FACE = 20  # public methods of `Executions`: who needs more of them asks for another object


def attributes_declared(tree: ast.Module) -> set[str]:
    """The attributes of the classes that a module defines."""
    found: set[str] = set()
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(owner):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    found.add(name)
    return found


def attributes_of_others(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a module assigns to an object that is not `self`, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield from () if is_own else [(node.lineno, node.attr)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_assigns_an_attribute_of_an_object_made_elsewhere(path: Path) -> None:
    tree = ast.parse(path.read_text())
    own = attributes_declared(tree)

    strange = [f"{path.name}:{line}: {name}" for line, name in attributes_of_others(tree) if name not in own]

    assert strange == [], "give it to the constructor, or let the object have a method for it"


def test_the_public_interface_of_the_control_plane_is_small() -> None:
    public = [name for name, member in vars(Executions).items() if isfunction(member) and not name.startswith("_")]

    assert len(public) <= FACE, public


def assembled(listeners: Listeners) -> Assembly:
    return assemble(MemoryStore(), MemoryResults(), MemoryWakeups(), ManualClock(), listeners=listeners)


async def test_listeners_are_called_in_order_after_a_commit_is_stored() -> None:
    heard: list[str] = []

    def hears(name: str, commits: object) -> None:
        heard.append(name)

    listeners = Listeners(stored=(lambda commits: hears("first", commits), lambda commits: hears("second", commits)))
    control = assembled(listeners)

    await control.executions.start(net_of(CHAIN), execution_id="x1", trace_id="t", payload={})

    assert heard == ["first", "second"]


async def test_a_listener_is_not_called_for_a_failed_commit() -> None:
    heard: list[list[Commit]] = []
    control = assembled(Listeners(stored=(lambda commits: heard.append(list(commits)),)))

    await control.executions.start(net_of(CHAIN), execution_id="x1", trace_id="t", payload={})
    await control.executions.execution("x1")

    assert [[commit.execution.execution_id for commit in commits] for commits in heard] == [["x1"]]
