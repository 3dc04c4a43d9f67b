"""Values from the command line, as JSON, from a file, from standard input, or as key=value pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec


def value_from(text: str | None, option: str) -> Any:
    """`JSON`, `@file` or `@-`; None for nothing. click.BadParameter says what is wrong."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(_read(text[1:], option) if text.startswith("@") else text)
    except msgspec.DecodeError as problem:
        raise click.BadParameter(f"this is not JSON: {problem}", param_hint=option) from None


def object_from(text: str | None, option: str) -> dict[str, Any]:
    value = value_from(text, option)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise click.BadParameter("a JSON object is needed, such as '{\"n\": 1}'", param_hint=option)
    return value


def pairs_from(pairs: Iterable[str], option: str) -> dict[str, Any]:
    """`n=3` is a number, `n="3"` and `n=three` are text: what is JSON is taken as JSON."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise click.BadParameter(f'"{pair}" is not key=value', param_hint=option)
        try:
            found[key] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found[key] = text
    return found


def _read(name: str, option: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise click.BadParameter(f"{name}: {problem.strerror}", param_hint=option) from None
