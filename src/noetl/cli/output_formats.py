"""Forms of output: a list as a table, as JSON, JSON lines, YAML or bare ids; a record as text, JSON or YAML.

Fields are those of the HTTP API, whether they come from a server or from a store (DEPENDENCIES §6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from noetl.cli.queries import as_json
from noetl.cli.terminal import visible, width

LISTS = ["table", "json", "jsonl", "yaml", "id"]
RECORDS = ["text", "json", "yaml"]

list_output = click.option("-o", "--output", type=click.Choice(LISTS), default="table", help="Output format.")
record_output = click.option("-o", "--output", type=click.Choice(RECORDS), default="text", help="Output format.")


def print_list(rows: Sequence[Any], output: str, *, key: str, table: Callable[[], Iterable[str]]) -> None:
    """Rows as shapes of the API, or as plain data. `key` is the field that `-o id` prints, `table` the lines for
    people."""
    match output:
        case "json":
            click.echo(as_json(rows))
        case "jsonl":
            for row in rows:
                click.echo(as_json(row, indent=-1))
        case "yaml":
            click.echo(as_yaml(list(rows)), nl=False)
        case "id":
            for row in rows:
                click.echo(row[key] if isinstance(row, dict) else getattr(row, key))
        case _:
            for line in table():
                click.echo(line)


def print_record(record: Any, output: str, *, text: Callable[[], Iterable[str]]) -> None:
    match output:
        case "json":
            click.echo(as_json(record))
        case "yaml":
            click.echo(as_yaml(record), nl=False)
        case _:
            for line in text():
                click.echo(line)


def as_yaml(value: Any) -> str:
    import msgspec
    import yaml

    plain = msgspec.json.decode(msgspec.json.encode(value))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110))


def columns(headings: Sequence[str], rows: Sequence[Sequence[Any]], *, nothing: str | None = None) -> list[str]:
    """The lines of a table; `nothing` alone when there are no rows. Text is made safe to print."""
    if not rows and nothing is not None:
        return [nothing]
    shown = [[visible(str(cell if cell is not None else "")) for cell in row] for row in (headings, *rows)]
    widths = [max(width(row[column]) for row in shown) for column in range(len(headings))]
    return [
        "  ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
