"""Positions and problems of YAML, and the meaning of unquoted words.

`Places` turns the parser's marks and offsets into spans of the given text. The parser drops a byte order mark and
counts more line breaks than editors do (U+0085, U+2028, U+2029, a lone carriage return); here both are corrected, so
that lines and columns are those an editor shows.

Problems of YAML that parses: the message of each, with a hint (E_YAML). `yaml_tree.py` finds them; text that does not
parse is explained in `yaml.py`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from math import isinf
from typing import NoReturn

import msgspec
import yaml

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic, Span
from noetl.language.reading.nodes import Node, Scalar, describe, type_names

BYTE_ORDER_MARK = "\ufeff"
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:\s+|\s*#[^\n]*\n)*)*")


class Places:
    """The text that is parsed, and the positions of its characters in the original text."""

    def __init__(self, given: str) -> None:
        self.shift = 1 if given.startswith(BYTE_ORDER_MARK) else 0
        self.text = given[self.shift :]
        self._odd = _ODD_BREAK.search(self.text) is not None
        self._line_starts: list[int] = []

    @staticmethod
    def start(event: yaml.Event) -> int:
        """The offset into `text` at which an event begins."""
        assert event.start_mark is not None
        return event.start_mark.index

    @staticmethod
    def end(event: yaml.Event) -> int:
        assert event.end_mark is not None
        return event.end_mark.index

    def span(self, first: yaml.Event, last: yaml.Event | None = None) -> Span:
        """From the first character of one event to the last of another, or of the same."""
        start, end = first.start_mark, (last or first).end_mark
        assert start is not None
        assert end is not None
        # The parser can report a line break that does not exist, for instance after "---".
        if self._odd or end.index >= len(self.text):
            return self.between(start.index, end.index)
        shift = self.shift
        return Span(
            start.line + 1, start.column + 1, end.line + 1, end.column + 1, start.index + shift, end.index + shift
        )

    def between(self, start: int, end: int) -> Span:
        """The text between two offsets into `text`."""
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        return Span(line, column, end_line, end_column, start + self.shift, end + self.shift)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset into `text`, both from one."""
        # Made when first needed: most spans come from the parser as they are.
        if not self._line_starts:
            self._line_starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int) -> int:
        """Where a line begins in `text`; past the last line, where the text ends."""
        self.position(0)
        return self._line_starts[line - 1] if line <= len(self._line_starts) else len(self.text)

    def line(self, number: int) -> str:
        """The text of a line without its break, or nothing before the first and past the last."""
        if number < 1:
            return ""
        start = self.offset(number)
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def scalar(self, event: yaml.ScalarEvent) -> Span:
        """The text of a scalar, quotes included; without its anchor and tag, and without blank lines at its end."""
        if not (event.anchor or event.tag or event.style in ("|", ">")):
            return self.span(event)
        first, end = self.start(event), self.end(event)
        if event.anchor or event.tag:
            found = _PROPERTIES.match(self.text, first, end)
            first = found.end() if found else first
        written = self.text[first:end].rstrip()
        return self.between(first, first + len(written))


class YamlProblem(msgspec.Struct, frozen=True):
    """Something wrong with the text, before it has any meaning."""

    place: PositionedDiagnostic
    message: str
    hint: str = ""


class YamlRefused(Exception):  # noqa: N818 - the document is refused; nothing of ours has failed
    """Reading stops here."""

    def __init__(self, problem: YamlProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def refuse(span: Span, message: str, hint: str = "move data out of the playbook, or split it") -> NoReturn:
    """Stop: a limit is passed, or what follows must not be read."""
    raise YamlRefused(YamlProblem(DiagnosticPosition("", span), message, hint))


def quoted(text: str) -> str:
    """`text` in quotes that need no escape inside, as far as there are such."""
    return (
        f"'{text}'" if '"' in text and "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


def duplicate_key(key: Scalar, earlier: Scalar) -> YamlProblem:
    message = f'"{key.value}" is written twice in one mapping, on lines {earlier.span.line} and {key.span.line}'
    return YamlProblem(key, message, "keep one of them")


def merge_key(place: DiagnosticPosition) -> YamlProblem:
    hint = "write the keys out, or repeat a whole value with an alias"
    return YamlProblem(place, 'the merge key "<<" is not part of YAML 1.2', hint)


def typed_key(place: DiagnosticPosition, name: str, value: Value) -> YamlProblem:
    found = f'"{name}"' if name else "this one"
    return YamlProblem(
        place, f"keys are text, and {found} is {type_names[type(value)]}", f'write it in quotes: "{name}"'
    )


def collection_key(node: Node) -> YamlProblem:
    return YamlProblem(node, f"keys are text, and this one is {describe(node)}", "write the key as one word")


def alias_key(place: DiagnosticPosition, node: Node) -> YamlProblem:
    return YamlProblem(place, f"keys are text, and this alias repeats {describe(node)}", "write the key out")


def unknown_alias(place: DiagnosticPosition, name: str, *, inside: bool) -> YamlProblem:
    if inside:
        return YamlProblem(place, f'"*{name}" stands inside the value it repeats', "write the value out")
    hint = f'name a value with "&{name}" further up, or quote the text if it is meant to begin with a star'
    return YamlProblem(place, f'"*{name}" stands for a value named "&{name}", and there is none above', hint)


def tag(place: DiagnosticPosition, text: str) -> YamlProblem:
    hint = "remove the tag, or quote the text if it is meant to begin with an exclamation mark"
    return YamlProblem(place, f'the tag "{text}" is not read: a playbook holds plain values only', hint)


def unquoted_template(place: DiagnosticPosition, text: str) -> YamlProblem:
    """The most common mistake of all: YAML reads `{{ x }}` as a mapping whose key is a mapping."""
    return YamlProblem(place, "a template without quotes, which YAML reads as a mapping", f"quote it: {quoted(text)}")


def not_json(place: DiagnosticPosition, why: str, text: str) -> YamlProblem:
    return YamlProblem(place, why, f"write it as text, in quotes: {quoted(text[:40])}")


def unstorable_text(place: DiagnosticPosition) -> YamlProblem:
    return YamlProblem(place, "this text holds a character that cannot be stored", "remove the escape that makes it")


# Plain scalars: the value of an unquoted word, by the core schema of YAML 1.2.

Value = bool | int | float | str | None

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Longer numbers overflow or are meaningless, and their conversion takes quadratic time.
_MAX_DIGITS = 400
_LEAST, _MOST = -(2**63), 2**64 - 1


class NotJsonError(ValueError):
    """A number that JSON, and so the event log, cannot hold; the message says why."""


def resolve(text: str) -> Value:
    """The value of plain `text`; raises NotJsonError for a number that cannot be stored."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return _float(text)
    if _NOT_JSON.fullmatch(text):
        raise NotJsonError(f'"{text}" cannot be stored as JSON')
    return text


def _integer(text: str) -> int:
    if len(text) <= _MAX_DIGITS:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        value = int(text, base)
        if _LEAST <= value <= _MOST:
            return value
    raise NotJsonError("this number does not fit into 64 bits")


def _float(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else float("inf")
    if isinf(value):
        raise NotJsonError("this number is too large for a float")
    return value
