"""Places inside a text: from an offset in a scalar's value to its line and column (VAL-15).

Escapes, folding and indentation make the value differ from the source, so places are found by counting template
delimiters: the n-th one of the value is the n-th one of the source text. Outside of templates words are counted in the
same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic, Source, Span, is_template
from noetl.base.errors import TemplateError
from noetl.language.reading.nodes import Scalar
from noetl.templates.expression import Template, parse

_OPENING = re.compile(r"\{\{|\{%|\{#")
_CLOSING = re.compile(r"\s*-?(?:\}\}|%\}|#\})|$", re.MULTILINE)
_WHOLE = re.compile(r"(?:\{\{|\{%|\{#).*?(?:\}\}|%\}|#\}|$)", re.MULTILINE)


def place_in(
    scalar: Scalar, offset: int | None, source: Source | None, length: int | None = None
) -> PositionedDiagnostic:
    """The position of the character at `offset` of the scalar's text; the whole scalar if that is unknown."""
    if offset is None or source is None:
        return _first_line(scalar)
    raw = source.cut(scalar.span)
    at = _offset_in_source(str(scalar.value), offset, raw)
    if at is None:
        return _first_line(scalar)
    if length is None:
        at, end = _to_underline(raw, at)
    else:
        end = at + length
    return DiagnosticPosition(scalar.path, _span(scalar.span, raw, at, end))


def name_in(scalar: Scalar, name: str, source: Source | None, *, quoted: bool = False) -> PositionedDiagnostic:
    """The place where `name` is first read inside a template, or is quoted text in it."""
    text = str(scalar.value)
    opening = _OPENING.search(text)
    # Not after a dot or a quote: there it is a key or a text, not the name.
    before = r"(?<=['\"])" if quoted else r"(?<![\w.'\"])"
    found = re.compile(rf"{before}{re.escape(name)}(?!\w)").search(text, opening.end() if opening else 0)
    return place_in(scalar, found.start() if found else None, source, len(name))


def key_in(scalar: Scalar, root: str, path: Sequence[str | int], source: Source | None) -> PositionedDiagnostic:
    """Where the last key of `path` is first read on `root` inside a template; where `root` is, if that is not found."""
    *way, last = (re.escape(str(key)) for key in path)
    on_the_way = "".join(rf"\s*(?:\.\s*{key}(?!\w)|\[\s*['\"]?{key}['\"]?\s*\])" for key in way)
    reading = rf"(?<![\w.'\"]){re.escape(root)}{on_the_way}\s*(?:\.\s*|\[\s*['\"])(?P<key>{last})(?!\w)"
    text = str(scalar.value)
    opening = _OPENING.search(text)
    found = re.compile(reading).search(text, opening.end() if opening else 0)
    if found is None:
        return name_in(scalar, root, source)
    return place_in(scalar, found.start("key"), source, len(found["key"]))


def word_in(scalar: Scalar, plain: str, offset: int, length: int, source: Source | None) -> PositionedDiagnostic:
    """The place of a word outside of templates; `plain` is the text of the scalar without its templates."""
    word = re.compile(re.escape(plain[offset : offset + length]))
    raw = source.cut(scalar.span) if source is not None else ""
    places_in_text = [found.start() for found in word.finditer(plain)]
    places_in_source = [found.start() for found in word.finditer(_WHOLE.sub(lambda hidden: " " * len(hidden[0]), raw))]
    # The source may have the word once more, in an escape or in a comment at the head of a block: then the counts
    # differ.
    if offset not in places_in_text or len(places_in_text) != len(places_in_source):
        return _first_line(scalar)
    at = places_in_source[places_in_text.index(offset)]
    return DiagnosticPosition(scalar.path, _span(scalar.span, raw, at, at + length))


def _offset_in_source(text: str, offset: int, raw: str) -> int | None:
    before = [found.start() for found in _OPENING.finditer(text) if found.start() <= offset]
    if not before:
        return None
    delimiters = [found.start() for found in _OPENING.finditer(raw)]
    if len(delimiters) < len(before):
        return None
    start, written = before[-1], delimiters[len(before) - 1]
    between = text[start:offset]
    # The source has an escape or a line break in between: then the beginning of the template is the closest known
    # place.
    return written + len(between) if raw.startswith(between, written) else written


def _to_underline(raw: str, at: int) -> tuple[int, int]:
    """From the mistake to the end of its expression; the whole expression if it only ends too early."""
    for whole in _WHOLE.finditer(raw):
        if whole.start() <= at <= whole.end():
            closing = _CLOSING.search(raw, at)
            end = closing.start() if closing else at
            ends_early = end <= at or end > whole.end()
            return (whole.start(), whole.end()) if ends_early else (at, end)
    return at, at + 1


def _span(whole: Span, raw: str, at: int, end: int) -> Span:
    line = whole.line + raw.count("\n", 0, at)
    newline = raw.rfind("\n", 0, at)
    column = at - newline if newline >= 0 else whole.column + at
    return Span(line, column, line, column + (end - at), whole.start + at, whole.start + end)


def _first_line(scalar: Scalar) -> PositionedDiagnostic:
    span = scalar.span
    if span.line == span.end_line:
        return scalar
    return DiagnosticPosition(
        scalar.path, Span(span.line, span.column, span.line, span.column + 1, span.start, span.start + 1)
    )


# Parsed templates, shared by all checks. A template that does not parse is reported once and left out.


def parsed(text: str) -> Template | None:
    """A parsed template; None for one with a mistake that was already reported."""
    try:
        return parse(text)
    except TemplateError:
        return None


def parsed_guard(when: Scalar | None) -> Template | None:
    """The template of a condition; None where there is no condition, or it is a plain word."""
    return parsed(str(when.value)) if when is not None and is_template(str(when.value)) else None
