"""`noetl compile`: the net a playbook compiles to, and where each part of it was written (CLI-04, SUGAR-06)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.checked_file import checked_file
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.net.debug import DebugMap
    from noetl.net.net import Net


@click.command("compile")
@click.argument("file")
@click.option("--debug-map", is_flag=True, help="Add where each compiled element was written.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the net.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@color_option
def command(file: str, debug_map: bool, output: str, dialect: str | None) -> None:
    """Show the net that FILE (or - for standard input) compiles to."""
    checked, net = checked_file(file, dialect=dialect)
    debug = checked.debug if debug_map else None
    click.echo(_as_json(net, debug) if output == "json" else _as_text(net, debug))


def _as_json(net: Net, debug: DebugMap | None) -> str:
    from noetl.net.encoding import content_hash, to_json

    compiled: dict[str, Any] = {"dialect": net.dialect, "hash": content_hash(net), "net": json.loads(to_json(net))}
    if debug is not None:
        compiled["debug_map"] = {
            address: {
                "path": origin.path,
                "line": origin.span.line,
                "column": origin.span.column,
                "construct": origin.construct,
            }
            for address, origin in debug.items()
        }
    return json.dumps(compiled, indent=2, ensure_ascii=False)


def _as_text(net: Net, debug: DebugMap | None) -> str:
    from noetl.net.dump import dump

    text = dump(net).rstrip("\n")
    if debug is None:
        return text
    return f"{text}\n\ndebug map:\n{_table(debug)}"


def _table(debug: DebugMap) -> str:
    longest = max((len(address) for address in debug), default=0)
    return "\n".join(
        f"  {address.ljust(longest)}  {origin.span.line}:{origin.span.column}  {origin.path}"
        + (f"  ({origin.construct})" if origin.construct else "")
        for address, origin in debug.items()
    )
