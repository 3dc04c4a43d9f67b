"""Terminal: whether what we print is coloured, and how text is measured and made safe to show.

The user's word comes first (`--color`), then FORCE_COLOR and NO_COLOR, then whether the stream is a terminal.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

Paint = Callable[..., str]  # click.style, or `plain`: both take the text and the style's words


def plain(text: str, **_: Any) -> str:
    """Text without colour."""
    return text


def color_option(function: Decorated) -> Decorated:
    """`--color`; without it the environment decides. What is chosen holds for every `click.echo` of the command."""
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
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")  # part of emoji and of several scripts, and harmless
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
