"""`noetl tools`: the tool kinds, the package of each, and whether it can run here (TOOL-01).

Also the options `--allow`, `--deny` and `--sandbox` of every command that runs tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noetl.cli.terminal import color_option, columns, list_output, print_list

if TYPE_CHECKING:
    from noetl.tools.registry import Permissions


@click.command("tools")
@list_output
@color_option
def command(output: str) -> None:
    """List the tool kinds: built in, or of an installed plug-in.

    \b
    noetl tools -o json
    """
    from noetl.cli.queries import refusals
    from noetl.operations.embedded import tools_here
    from noetl.tools.kinds import load_kinds

    with refusals():
        permissions = tools_here().permissions
    kinds = [_tool_row(name, permissions) for name in load_kinds()]
    rows = [(tool["kind"], tool["origin"], tool["driver"] or "", tool["state"]) for tool in kinds]
    heads = ("KIND", "FROM", "DRIVER", "HERE")
    print_list(kinds, output, key="kind", table=lambda: columns(heads, rows, nothing="no kinds"))


def _tool_row(name: str, permissions: Permissions) -> dict[str, Any]:
    from noetl.tools.kinds import KINDS, load_kinds
    from noetl.tools.registry import EXTRAS

    kind, package = load_kinds()[name], _packages().get(name)
    if package is not None and name not in KINDS:
        origin, state = package, "ready" if kind.plugin is None else f"broken: install {kind.plugin}"
    else:
        origin, state = "noetl", _state(name, permissions)
    if name in permissions.denied:
        state = "denied by the settings"
    return {
        "kind": name,
        "origin": origin,
        "state": state,
        "extra": EXTRAS.get(name),
        "driver": _driver(name),
        "inputs": [field.name for field in kind.inputs],
    }


def _driver(name: str) -> str | None:
    """The package a kind works with, and its version, where it is installed."""
    from importlib.metadata import version

    from noetl.tools.registry import EXTRAS, driver_of, is_installed

    extra = EXTRAS.get(name)
    if extra is None or not is_installed(extra):
        return None
    packages = _distributions().get(driver_of(extra).partition(".")[0], [])
    return f"{packages[0]} {version(packages[0])}" if packages else None


def _state(name: str, permissions: Permissions) -> str:
    """Whether a kind of our own would run here, and what is missing otherwise."""
    from noetl.tools.registry import EXTRAS, is_installed

    if name == "workbook":
        # A name for a task written elsewhere in the playbook; the compiler resolves it.
        return "ready"
    if permissions.refusal(name) is not None:
        return f"off; --allow {name}"
    extra = EXTRAS.get(name)
    return "ready" if extra is None or is_installed(extra) else f'pip install "noetl-engine[{extra}]"'


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each package. Cached, because it reads the metadata of every installed one."""
    from importlib.metadata import packages_distributions

    return packages_distributions()


@cache
def _packages() -> dict[str, str]:
    """The package that brings a kind, by the kind's name."""
    from importlib.metadata import entry_points

    from noetl.tools.registry import GROUP

    return {
        entry.name: f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
        for entry in entry_points(group=GROUP)
    }


# `--allow`, `--deny` and `--sandbox`: what tools may do, for every command that runs them here.


def _kinds(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """`--allow shell,script` and `--allow shell --allow script` mean the same."""
    from noetl.tools.registry import ALLOWABLE

    kinds = tuple(kind.strip() for text in texts for kind in text.split(",") if kind.strip())
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
    """What tools may do in a local run: kinds that are turned on and off, and whether code needs a sandbox."""

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: bool = False

    def as_options(self) -> list[str]:
        """The same for a command of its own, such as `noetl worker start`."""
        options = [part for kind in self.allow for part in ("--allow", kind)]
        options += [part for kind in self.deny for part in ("--deny", kind)]
        return [*options, "--sandbox"] if self.sandbox else options

    def used_options(self) -> list[str]:
        """The options that were used."""
        return [f"--{name}" for name, value in zip(self._fields, self, strict=True) if value]
