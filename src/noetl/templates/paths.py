"""Paths: templates that are only text, lookups (`{{ a.b[0].c }}`) and constants (`{{ 1 }}`).

Most templates are, and they are recognised, checked and evaluated here without Jinja2: it is not even imported
(performance.md). Any other template is left to the full parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.attribute_access import ABSENT, member
from noetl.templates.budget import Evaluation
from noetl.templates.logic import GuardReference
from noetl.templates.output import leave, of_scope, written
from noetl.templates.values import Missing, UndefinedNameError, clipped, dunder_error, walked

_NAME = r"[^\W\d]\w*"
_TEXT = r"'[^'\\{}\n]*'|\"[^\"\\{}\n]*\""
_STEP = rf"\.{_NAME}|\[(?:\d{{1,9}}|{_TEXT})\]"
_PATH = re.compile(rf"({_NAME})((?:{_STEP})*)")
_NUMBER = r"(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?"
# Braces, backslashes and line breaks in quotes are left to the full parser, which may read them another way.
_SIMPLE = re.compile(rf"\{{\{{(?![-+])[ ]*(?:({_NAME}(?:{_STEP})*)|({_TEXT})|(-?{_NUMBER}))[ ]*\}}\}}")
_STEPS = re.compile(_STEP)
# As many as the full parser takes nodes, so that both refuse the same templates.
_MAX_PARTS = 2_000
_CONSTANTS: dict[str, Any] = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
# Words that are syntax to the full parser: a "path" that begins with one is left to it.
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "elif", "for", "recursive", "self"})

Lookup = Callable[[str], Any]


class Path:
    """One lookup: a root name and what is read on it."""

    __slots__ = ("keys", "offset", "root", "text")

    def __init__(self, root: str, keys: tuple[str | int, ...], offset: int) -> None:
        self.root = root
        self.keys = keys
        self.offset = offset
        self.text = ".".join(map(str, (root, *keys)))

    def read(self, lookup: Lookup, strict: bool) -> Any:
        """The value, or Missing; an error when strict (TPL-04)."""
        try:
            value = lookup(self.root)
        except UndefinedNameError as problem:
            raise TemplateError(problem.message) from None
        except KeyError:
            value = ABSENT
        else:
            for key in self.keys:
                # Written out for mappings: most steps of most paths are one, and a call costs as much as the lookup.
                value = value.get(key, ABSENT) if type(value) is dict else member(value, key)
                if value is ABSENT:
                    break
        if value is not ABSENT:
            return value
        if strict:
            raise TemplateError(
                f'"{clipped(self.text)}" is undefined, and this condition is strict (spec.eval: strict)'
            )
        return Missing(self.text)


class Constant:
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self, lookup: Lookup, strict: bool) -> Any:
        return self.value


Part = str | Path | Constant


def recognise(text: str) -> tuple[Part, ...] | None:
    """The parts of a template made of text, paths and constants alone; None when there is more to it."""
    if "{%" in text or "{#" in text:
        return None
    parts: list[Part] = []
    end = 0
    for found in _SIMPLE.finditer(text):
        part = _part(found)
        if part is None or len(parts) > _MAX_PARTS:
            return None
        if found.start() > end:
            parts.append(text[end : found.start()])
        parts.append(part)
        end = found.end()
    if end < len(text):
        parts.append(text[end:])
    # Something opens that this recogniser does not know: the full parser says what it is.
    if any("{{" in part for part in parts if isinstance(part, str)):
        return None
    return tuple(parts)


def _part(found: re.Match[str]) -> Path | Constant | None:
    path, text, number = found.groups()
    if text is not None:
        return Constant(text[1:-1])
    if number is not None:
        return Constant(float(number) if "." in number else int(number))
    if path in _CONSTANTS:
        return Constant(_CONSTANTS[path])
    return _path(path, found.start(1))


def _path(text: str, offset: int) -> Path | None:
    found = _PATH.match(text)
    assert found is not None
    root = found[1]
    if root in _KEYWORDS or root in _CONSTANTS:
        return None
    keys = tuple(_key(step.group()) for step in _STEPS.finditer(text, found.end(1)))
    for key in (root, *keys):
        if isinstance(key, str) and key.startswith("__"):
            raise TemplateError(dunder_error(key).message, offset=offset + text.index(key))
    return Path(root, keys, offset)


def _key(step: str) -> str | int:
    if step[0] == ".":
        return step[1:]
    return int(step[1:-1]) if step[1].isdigit() else step[2:-2]


def references(parts: tuple[Part, ...]) -> tuple[GuardReference, ...]:
    return tuple(dict.fromkeys(GuardReference(part.root, part.keys) for part in parts if isinstance(part, Path)))


def value_of(part: Path | Constant, lookup: Lookup, strict: bool, as_list: bool = False) -> Any:
    """The native value of a template that is one path or constant; `as_list` as for `Template.evaluate`."""
    value = part.read(lookup, strict)
    if as_list:
        value = walked(value)
    kind = type(value)
    if kind is str or kind is int or kind is list or kind is bool or value is None:
        return value
    if kind is dict:
        return of_scope(value)
    return leave(Evaluation(lookup), value)


def text_of(parts: tuple[Part, ...], run: Evaluation) -> str:
    """The text of a template that mixes text with paths and constants."""
    texts = [part if isinstance(part, str) else written(run, part.read(run.lookup, run.strict)) for part in parts]
    run.fits(sum(map(len, texts)))
    return "".join(texts)
