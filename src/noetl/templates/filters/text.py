"""Filters on text. What is not text is written as text first, as in Jinja2."""

from __future__ import annotations

import base64
import binascii
import html
import re
from typing import Any
from urllib.parse import quote

from noetl.base.errors import TemplateError
from noetl.templates import prices
from noetl.templates.budget import Evaluation
from noetl.templates.iteration import elements
from noetl.templates.methods import call_method
from noetl.templates.methods import replace as replace_text
from noetl.templates.text_output import percent_format, written
from noetl.templates.values import SqlFragment, SqlIdentifier, described
from noetl.templates.values import identifier as quoted_identifier

_WORD_START = re.compile(r"([-\s({\[<]+)")
_MAX_INDENT = 1_000
_MARK_PASSES = 5  # each mark is counted and replaced on its own


def upper(run: Evaluation, value: Any) -> Any:
    return call_method(run, written(run, value), "upper", [])


def lower(run: Evaluation, value: Any) -> Any:
    return call_method(run, written(run, value), "lower", [])


def capitalize(run: Evaluation, value: Any) -> Any:
    return call_method(run, written(run, value), "capitalize", [])


def title(run: Evaluation, value: Any) -> str:
    text = written(run, value)
    run.spend(len(text))
    return run.text("".join(part[0].upper() + part[1:].lower() for part in _WORD_START.split(text) if part))


def trim(run: Evaluation, value: Any, chars: str | None = None) -> Any:
    return call_method(run, written(run, value), "strip", [chars])


def center(run: Evaluation, value: Any, width: int = 80) -> Any:
    return call_method(run, written(run, value), "center", [width])


def indent(run: Evaluation, value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Every line but the first (and empty ones) moved in by `width` blanks, or by the text given."""
    text = written(run, value)
    if isinstance(width, int) and not 0 <= width <= _MAX_INDENT:
        raise TemplateError(f"indent takes a width from 0 to {_MAX_INDENT:,}")
    prefix = " " * width if isinstance(width, int) else width
    lines = run.read(text).count("\n") + 1
    run.fits(len(text) + lines * len(prefix))
    run.spend(lines)
    head, *rest = text.split("\n")
    moved = "\n".join([head, *(prefix + line if line or blank else line for line in rest)])
    return run.text(prefix + moved if first else moved)


def formatted(run: Evaluation, value: Any, *values: Any, **named: Any) -> str:
    """`"%.2f" | format(x)`: the same as `"%.2f" % x`, as in Jinja2. It has nothing of `str.format`."""
    return percent_format(run, written(run, value), named or values)


def replace(run: Evaluation, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    most = -1 if count is None else count
    return replace_text(run, written(run, value), written(run, old), written(run, new), most)


def truncate(
    run: Evaluation, value: Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    """At most `length` characters, `end` included; cut between words unless `killwords`."""
    text = written(run, value)
    if length < len(end):
        raise TemplateError(f"truncate needs a length of at least {len(end)} for its ending")
    if len(text) <= length + leeway:
        return text
    run.fits(length)
    kept = run.text(text[: length - len(end)])
    return run.text((kept if killwords else kept.rsplit(" ", 1)[0]) + end)


def wordcount(run: Evaluation, value: Any) -> int:
    return len(call_method(run, written(run, value), "split", []))


def string(run: Evaluation, value: Any) -> str:
    return written(run, value)


def escape(run: Evaluation, value: Any) -> str:
    """HTML-safe text."""
    text = written(run, value)
    run.fits(len(text))
    run.spend(_MARK_PASSES * prices.reading(text))
    run.fits(len(text) + 5 * sum(text.count(mark) for mark in "&<>'\""))
    return run.text(html.escape(text))


def urlencode(run: Evaluation, value: Any) -> str:
    """Text quoted for a URL, or a mapping (or list of pairs) as a query string."""
    if isinstance(value, dict):
        run.spend(len(value))
        pairs: Any = list(value.items())
    elif isinstance(value, list | tuple):
        pairs = [tuple(elements(run, pair)) for pair in elements(run, value)]
        if any(len(pair) != 2 for pair in pairs):
            raise TemplateError("urlencode takes text, a mapping or a list of pairs")
    else:
        return _quoted(run, value, "/")
    query = "&".join(f"{_quoted(run, key, '')}={_quoted(run, item, '')}" for key, item in pairs)
    return run.text(query.replace("%20", "+"))


def _quoted(run: Evaluation, value: Any, safe: str) -> str:
    body = _encoded(run, value)
    run.fits(3 * len(body))
    run.spend(2 + (len(body) >> 2))
    return run.text(quote(body, safe=safe))


def _encoded(run: Evaluation, value: Any) -> bytes:
    text = written(run, value)
    run.fits(len(text))
    return run.read(text).encode()


def b64encode(run: Evaluation, value: Any) -> str:
    body = _encoded(run, value)
    run.fits(4 * len(body) // 3)
    return run.text(base64.b64encode(body).decode())


def b64decode(run: Evaluation, value: Any) -> str:
    try:
        return run.text(base64.b64decode(run.read(written(run, value)), validate=True).decode())
    except (binascii.Error, ValueError):
        raise TemplateError("b64decode was given something that is not base64 of UTF-8 text") from None


def identifier(run: Evaluation, value: Any) -> SqlIdentifier:
    """An SQL name, quoted and marked (design.md §8)."""
    parts = elements(run, value) if isinstance(value, list | tuple) else [value]
    length = 0
    for part in parts:
        length += len(run.read(part)) if isinstance(part, str) else 1
        run.fits(length)
    made = quoted_identifier(value)
    run.text(made)
    return made


def sql(run: Evaluation, value: Any) -> SqlFragment:
    """A piece of SQL the author vouches for, marked (design.md §8)."""
    if not isinstance(value, str):
        raise TemplateError(f"sql marks text, not {described(value)}")
    return SqlFragment(run.text(value))
