"""Output of commands: formats, colours, the width of text, and making text safe to print.

A list is printed as a table, JSON, JSON lines, YAML or ids; a record as text, JSON or YAML. Fields are those of the
HTTP API, whether they come from a server or from a store. For colours `--color` comes first, then
NO_COLOR and FORCE_COLOR, then whether the stream is a terminal.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

# `click.style`, or `plain`, which ignores the style: reports use either without a check.
Paint = Callable[..., str]


def plain(text: str, **_: Any) -> str:
    """Text without colour."""
    return text


def color_option(function: Decorated) -> Decorated:
    """Adds `--color`; without it the environment decides. It applies to every `click.echo` of the command."""
    option = click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        is_eager=True,
        callback=_choose,
        help="Colours: auto (on a terminal), always, never.",
    )
    return option(function)


def _choose(ctx: click.Context, _: click.Parameter, choice: str | None) -> None:
    if choice in ("always", "never"):
        ctx.color = choice == "always"
    elif choice == "auto" or ctx.color is None:
        ctx.color = color_from(os.environ)


def color_from(environment: Mapping[str, str]) -> bool | None:
    """What the environment asks for; None leaves it to the stream."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return False if environment.get("TERM") == "dumb" else None


_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSAFE_IN_JSON = re.compile(
    f"[\x7f-\x9f\u00ad\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\U000e0000-\U000e007f{''.join(sorted(_BIDI))}]"
)
# Part of emoji and of several scripts, and harmless.
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
_TAB = "    "


def visible(text: str) -> str:
    """Text with every character that could move the cursor, colour or reverse the line made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_char(char) for char in text)


def _visible_char(char: str) -> str:
    if char == "\t":
        return _TAB
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)  # ␛ and its kin
    if char in _BIDI or (unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in _JOINERS):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return char


def width(text: str) -> int:
    """Columns that visible text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if char in _JOINERS or unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def when(moment: str | None) -> str:
    """A time of the API for a table, to the second."""
    return moment[:19] + "Z" if moment is not None else "-"


LISTS = ["table", "json", "jsonl", "yaml", "id"]
RECORDS = ["text", "json", "yaml"]

list_output = click.option("-o", "--output", type=click.Choice(LISTS), default="table", help="Output format.")
record_output = click.option("-o", "--output", type=click.Choice(RECORDS), default="text", help="Output format.")


def print_list(rows: Sequence[Any], output: str, *, key: str, table: Callable[[], Iterable[str]]) -> None:
    """Print rows, which are shapes of the API or plain data. `key` is the field that `-o id` prints, `table` returns
    the lines of the table."""
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

    # Convert through JSON, so that both formats have the same fields and the same texts for times.
    plain = msgspec.json.decode(msgspec.json.encode(value))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110))


def columns(headings: Sequence[str], rows: Sequence[Sequence[Any]], *, nothing: str | None = None) -> list[str]:
    """The lines of a table; `nothing` alone when there are no rows. Text is made safe to print."""
    if not rows and nothing is not None:
        return [nothing]
    cells = [[visible(str(cell if cell is not None else "")) for cell in row] for row in (headings, *rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(headings))]
    return [
        "  ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def as_json(value: Any, *, indent: int = 2) -> str:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    # JSON escapes no more than the first 32 characters. The value stays the same for programs that read it.
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    import json

    return json.dumps(found.group())[1:-1]
