"""Whether a command line or a variable of a deployment file is one that NoETL has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from noetl.base.settings import PREFIX, Settings
from noetl.cli.main import noetl

# Read elsewhere than among the settings.
OTHERS = {"NOETL_HOME", "NOETL_MASTER_KEY", "NOETL_MASTER_KEY_FILE"}


def parsed_command(words: Sequence[str]) -> click.Context:
    """The command with its options, read but not run. click.UsageError when there is none."""
    command: click.Command = noetl
    ctx, rest = click.Context(noetl, info_name="noetl"), list(words)
    while isinstance(command, click.Group):
        _, under, rest = command.resolve_command(ctx, rest)
        assert under is not None
        ctx, command = click.Context(under, info_name=under.name, parent=ctx), under
    command.parse_args(ctx, rest)
    return ctx


def refuse_unknown_variables(names: Iterable[str]) -> None:
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__} | OTHERS
    unknown = {name for name in names if name.startswith(PREFIX)} - known
    assert unknown == set()
