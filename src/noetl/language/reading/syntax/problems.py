"""What can be wrong with YAML that parses: each problem in words, with the way out (E_YAML).

Only wording lives here. `tree` decides when to say it, `mistakes` explains text that does not parse at all.
"""

from __future__ import annotations

import re
from math import isinf
from typing import NoReturn

import msgspec

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic
from noetl.base.source import Span
from noetl.language.reading.nodes import Node, Scalar, describe, type_names


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
    return YamlProblem(place, f'"*{name}" repeats a value that has no name yet', hint)


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


# Plain scalars: what an unquoted word means, by the core schema of YAML 1.2.

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
_MAX_DIGITS = 400  # longer ones overflow or mean nothing, and converting them is slow
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
        raise NotJsonError(f'"{text}" has no place in JSON, where values are kept')
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
