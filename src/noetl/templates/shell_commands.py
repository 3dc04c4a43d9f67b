"""Commands: authored command text and a scope to what `sh` is given (design.md §8, reliability.md §2.2).

Every template becomes a variable that is set before the command begins, and is used in quotes: no value is ever read as
code, split into words or expanded. A list is an argument vector; one of its items may itself give a list.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache
from typing import Any

from noetl.base.diagnostics import is_template
from noetl.base.errors import ToolError
from noetl.templates.analysis import references
from noetl.templates.expression import Template, parse
from noetl.templates.render import ScopeLike
from noetl.templates.shell_positions import ShellPosition, ShellScanner

# Command text into what the author wrote and the templates between.
#
# Statements (`{% … %}`) would make commands out of values and are refused.

Piece = str | Template


@lru_cache(maxsize=2_048)
def pieces(text: str) -> tuple[Piece, ...]:
    """The text and the templates of a command, in order. ToolError `shell.template` for `{% … %}`."""
    if not is_template(text):
        return (text,) if text else ()
    parse(text)  # everything the sandbox refuses is refused here
    from jinja2 import nodes

    from noetl.templates.syntax import read_tree

    found: list[Piece] = []
    for part in read_tree(text).body:
        if not isinstance(part, nodes.Output):
            word = type(part).__name__.lower()
            raise ToolError(
                "shell.template",
                f'a "{word}" block would make commands out of values; write {{{{ … }}}} where a value stands, '
                "or a list of arguments",
            )
        for node in part.nodes:
            if isinstance(node, nodes.TemplateData):
                found.append(node.data)
            else:
                tree = nodes.Template([nodes.Output([node], lineno=node.lineno)], lineno=1)
                found.append(Template(text, single=True, references=references(tree), tree=tree))
    return tuple(found)


_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z")
_SIGNS = re.compile(r"(\\*)(\$*)\Z")
_VARIABLE = "_noetl_"
_REFUSED = {
    ShellPosition.BACKQUOTES: "write $(…) instead",
    ShellPosition.QUOTED_HERE: "sh would not fill it in there: leave the quotes off the delimiter",
}


def command(authored: Any, scope: ScopeLike, *, now: float | None = None) -> str | list[str]:
    """Text for `sh -c`, or an argument vector. TemplateError, or ToolError `shell.template` for what cannot be."""
    if isinstance(authored, list):
        return _vector(authored, scope, now)
    if not isinstance(authored, str):
        raise ToolError("shell.template", f"a command is text or a list of texts, not {type(authored).__name__}")
    if is_template(authored) and (whole := parse(authored)).single:
        value = whole.evaluate(scope, now)
        if isinstance(value, list):
            return [_argument_text(item) for item in value]
    return _Filling(scope, now).filled(pieces(authored))


def _vector(authored: list[Any], scope: ScopeLike, now: float | None) -> list[str]:
    words: list[str] = []
    guarded = True
    for item in authored:
        parts = pieces(item) if isinstance(item, str) else ()
        if not any(isinstance(part, Template) for part in parts):
            words.append(_argument_text(item))
            # After the author's own `--` nothing is an option, even with a leading dash.
            guarded = guarded and item != "--"
            continue
        value = parse(item).evaluate(scope, now)
        for word in map(_argument_text, value if isinstance(value, list) else [value]):
            # Not the first word, which is the program, and not after a `--` of the author's own, where nothing is an
            # option.
            if words and guarded and isinstance(parts[0], Template):
                _refuse_option(word)
            words.append(word)
    return words


class _Filling:
    def __init__(self, scope: ScopeLike, now: float | None) -> None:
        self._scope, self._now = scope, now
        self._walk = ShellScanner()
        self._values: list[str] = []
        self._written: list[str] = []

    def filled(self, parts: tuple[Piece, ...]) -> str:
        for part in parts:
            if isinstance(part, Template):
                self._hole(part)
            else:
                self._walk.take(part)
                self._written.append(part)
        # Values are only here, quoted by shlex, before the author's text: that text is the same for all values.
        set_first = "".join(f"{_VARIABLE}{n}={shlex.quote(value)}; " for n, value in enumerate(self._values, 1))
        return set_first + "".join(self._written)

    def _hole(self, template: Template) -> None:
        place = self._walk.place
        if place is ShellPosition.COMMENT:
            return  # not even evaluated
        if why := _REFUSED.get(place):
            raise ToolError("shell.template", f"a template cannot stand {place.value}: {why}")
        if place is not ShellPosition.SINGLE:
            self._escape_dollar()
        value = template.evaluate(self._scope, self._now)
        if place is ShellPosition.ARITHMETIC:
            self._written.append(_number(value))
        else:
            word = _argument_text(value)
            if self._walk.may_be_option:
                _refuse_option(word)
            self._values.append(word)
            self._written.append(self._reference(f"${{{_VARIABLE}{len(self._values)}}}"))
        self._walk.hole()

    def _reference(self, variable: str) -> str:
        """The variable as it must be written here to stay one argument."""
        match self._walk.place:
            case ShellPosition.SINGLE:
                # Out of the single quotes, where a variable would be text, and into them again behind it.
                return f"'\"{variable}\"'"
            case ShellPosition.DOUBLE:
                # Closed and opened again on both sides, so that neighbours in the author's quotes cannot join the name.
                return f'""{variable}""'
            case ShellPosition.HERE:
                return variable
            case ShellPosition.BRACES if self._walk.is_quoted:
                return variable
            case _:
                return f'"{variable}"'

    def _escape_dollar(self) -> None:
        """`$` before a template is a dollar sign; a backslash there would take the quotes of the value away."""
        before = self._written[-1] if self._written else ""
        found = _SIGNS.search(before)
        assert found is not None, "it matches nothing, too"
        backslashes, dollars = map(len, found.groups())
        if backslashes % 2 == 1 and not dollars:
            raise ToolError("shell.template", "a backslash stands before a template, where it escapes nothing")
        if (dollars - backslashes % 2) % 2 == 1:  # two of them are the number of the process
            self._written[-1] = before[:-1] + "\\$"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ToolError("shell.template", "a template in $((…)) must give a whole number")
    # In parentheses: `x-{{ n }}` would become `x--1`, where bash reads a decrement and fails.
    return f"({value})" if value < 0 else str(value)


def _argument_text(value: Any) -> str:
    """A value as one argument: text as it is, null as nothing, lists and mappings as JSON."""
    match value:
        case str():
            word = str.__str__(value)
        case None:
            word = ""
        case bool() | dict() | list():
            word = json.dumps(value, ensure_ascii=False, allow_nan=False)
        case _:
            word = str(value)
    if "\0" in word:
        raise ToolError("shell.template", "an argument cannot hold the character U+0000")
    return word


def _refuse_option(word: str) -> None:
    if word.startswith("-") and not _NUMBER.match(word):
        shown = word if len(word) <= 40 else word[:37] + "…"
        raise ToolError(
            "shell.template",
            f'the value "{shown}" begins with a dash, and its program could take it for an option; '
            "write -- before it, or the dash in the playbook itself",
        )
