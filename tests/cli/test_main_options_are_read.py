"""Every option and argument of every command is read by the function behind it, so that none is accepted and does
nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import click
import pytest

from noetl.cli.main import noetl


def commands(group: click.Group = noetl, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path}{name} ")
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield path + name, found


def names_read(function: Any) -> set[str]:
    """The names that a function reads; "**" where it hands on whatever else it was given."""
    (definition,) = ast.parse(dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(definition, ast.FunctionDef)
    read = {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    rest = definition.args.kwarg
    return read | {"**"} if rest is not None and rest.arg in read else read


@pytest.mark.parametrize(("path", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_what_a_command_takes_is_read(path: str, command: click.Command) -> None:
    read = names_read(command.callback)

    ignored = [one.name for one in command.params if one.expose_value and one.name not in read and "**" not in read]

    assert ignored == [], f"noetl {path} takes them and does nothing with them"
