"""`--allow`, `--deny` and `--sandbox`: what tools may do, for every command that runs them here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click


def _kinds(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """`--allow shell,script` and `--allow shell --allow script` mean the same."""
    from noetl.tools.permissions import ALLOWABLE

    kinds = tuple(kind.strip() for text in given for kind in text.split(",") if kind.strip())
    for kind in kinds:
        if kind not in ALLOWABLE:
            raise click.BadParameter(f'"{kind}" is not one of {", ".join(ALLOWABLE)}')
    return kinds


kinds_option = click.option(
    "--allow",
    multiple=True,
    callback=_kinds,
    metavar="KIND,…",
    help="Allow tool kinds that run programs on this machine: shell, script, container, mcp.",
)

deny_option = click.option(
    "--deny",
    multiple=True,
    callback=lambda _, __, given: tuple(kind.strip() for text in given for kind in text.split(",") if kind.strip()),
    metavar="KIND,…",
    help="Refuse these tool kinds, even if they are allowed elsewhere.",
)
sandbox_option = click.option(
    "--sandbox", is_flag=True, help="Run the code of python, shell and script tasks only in sandboxes."
)


class Allowed(NamedTuple):
    """What tools may do in a run here: kinds that are turned on and off, and whether code needs a sandbox."""

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: bool = False

    def as_options(self) -> list[str]:
        """The same for a command of its own, such as `noetl worker start`."""
        given = [part for kind in self.allow for part in ("--allow", kind)]
        given += [part for kind in self.deny for part in ("--deny", kind)]
        return [*given, "--sandbox"] if self.sandbox else given

    def used_options(self) -> list[str]:
        """The options that were used."""
        return [f"--{name}" for name, value in zip(self._fields, self, strict=True) if value]
