"""docs/cli.md is made from the command tree: every command is on it, with a sentence, its options and an example."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from noetl.cli.main import EXAMPLES, noetl
from tools.checks_page import ROOT
from tools.cli_page import cli_page, commands

LEAVES = [ctx for ctx in commands() if not isinstance(ctx.command, click.Group)]


def test_the_cli_page_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == cli_page(), "run `make docs`"


@pytest.mark.parametrize("ctx", commands(), ids=lambda ctx: ctx.command_path)
def test_every_command_has_a_description_and_documented_options(ctx: click.Context) -> None:
    help_text = (ctx.command.help or "").strip()

    assert re.match(r"[A-Z].*[.:]", help_text, re.S), help_text
    assert [one.name for one in ctx.command.params if isinstance(one, click.Option) and not one.help] == []


@pytest.mark.parametrize("ctx", LEAVES, ids=lambda ctx: ctx.command_path)
def test_every_command_has_an_example(ctx: click.Context) -> None:
    name = ctx.command_path.removeprefix("noetl ")
    examples = [line.strip() for line in (ctx.command.help or "").splitlines() if "\b" not in line]

    assert [line for line in examples if re.search(rf"(^|[\s(|]){re.escape(ctx.command_path)}\b", line)], name


@pytest.mark.parametrize("line", [line for example in EXAMPLES.values() for line in example.splitlines()])
def test_every_example_is_a_valid_command_line(line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])[1:]
    command: click.Command = noetl
    ctx = click.Context(command, info_name="noetl")
    while isinstance(command, click.Group):
        _, under, words = command.resolve_command(ctx, words)
        assert under is not None
        ctx, command = click.Context(under, info_name=under.name, parent=ctx), under
    command.parse_args(ctx, words)
