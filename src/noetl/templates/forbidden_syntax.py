"""Forbidden parts of a template, found in its syntax tree alone (TPL-11, reliability.md §2.1).

Size, depth and loop nesting; statements; functions, filters and tests outside the allow-lists; names with two
underscores, wherever a constant can spell one. Anything that is visible only at run time is refused there.
"""

from __future__ import annotations

import math
import re
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.budget import MAX_INTEGER_BITS
from noetl.templates.filters import FILTERS
from noetl.templates.functions import FUNCTIONS, PREDICATES
from noetl.templates.syntax import CHILDREN, Tree, children, place_of
from noetl.templates.values import dunder_error, unknown

# The tree of a template is walked recursively, here and when it is compiled; 64 levels are far below Python's limit.
MAX_NODES = 2_000
MAX_DEPTH = 64
# Three nested loops over the largest lists would spend the whole budget before they do anything useful.
MAX_LOOPS = 2

_STATEMENTS = {
    "Macro": "macro",
    "CallBlock": "call",
    "Include": "include",
    "Import": "import",
    "FromImport": "from",
    "Extends": "extends",
    "Block": "block",
    "ScopedEvalContextModifier": "autoescape",
}
_ATTRIBUTE_FILTERS = frozenset(
    {"map", "groupby", "sort", "unique", "min", "max", "sum", "join", "selectattr", "rejectattr"}
)
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")  # no text that can be stored has one (VAL-15)


def refuse(tree: Tree, text: str) -> None:
    """TemplateError for the first thing in `tree` that is not allowed."""
    _Inspection(text).visit(tree, 0, 0)


class _Inspection:
    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes = 0

    def visit(self, node: Any, depth: int, loops: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise TemplateError(f"the template is too large: more than {MAX_NODES:,} parts")
        if depth > MAX_DEPTH:
            raise TemplateError(f"the template is nested more than {MAX_DEPTH} deep")
        kind = type(node).__name__
        check = _CHECKS.get(kind)
        if check is not None:
            check(self, node)
        # Node types that the tables do not list are refused: a later Jinja2 may bring new ones.
        elif kind not in CHILDREN:
            raise self._at(node, _STATEMENTS.get(kind, kind.lower()), f'"{_STATEMENTS.get(kind, kind)}" is not allowed')
        if kind == "For":
            loops += 1
            if loops > MAX_LOOPS:
                raise self._at(node, "for", f"loops may be nested {MAX_LOOPS} deep, not more")
        for child in children(node):
            self.visit(child, depth + 1, loops)

    def name(self, node: Any) -> None:
        self._plain(node, node.name)

    def attribute(self, node: Any) -> None:
        self._plain(node, node.attr)

    def subscript(self, node: Any) -> None:
        if type(node.arg).__name__ == "Const" and isinstance(node.arg.value, str):
            self._plain(node, node.arg.value)

    def constant(self, node: Any) -> None:
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise TemplateError("the template holds a number that is too large")
        # In base 16, 8 or 2, a number may be longer than any that can be written in base 10, as events are.
        if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
            raise TemplateError(f"the template holds a number of more than {MAX_INTEGER_BITS:,} bits")
        if isinstance(node.value, str) and _HALF_A_PAIR.search(node.value):
            raise TemplateError("the template holds half of a surrogate pair, which is no character")

    def call(self, node: Any) -> None:
        self._no_spread(node)
        kind = type(node.node).__name__
        # A method; whether the value has it is known only when it is called.
        if kind == "Getattr":
            if node.node.attr == "xcom_pull":
                message = '"xcom_pull" is not known here: a result is read by the name of its step, as b.data'
                raise self._at(node, node.node.attr, message)
            if node.kwargs:
                raise self._at(node, node.kwargs[0].key, f'"{node.node.attr}" takes no named values')
            return
        name = node.node.name if kind == "Name" else "this"
        if name not in FUNCTIONS:
            raise self._at(node, name, unknown("function", name, FUNCTIONS).message)

    def filter(self, node: Any) -> None:
        self._no_spread(node)
        if node.name not in FILTERS:
            raise self._at(node, node.name, unknown("filter", node.name, FILTERS).message)
        if node.name in _ATTRIBUTE_FILTERS:
            self._attribute_arguments(node)

    def test(self, node: Any) -> None:
        self._no_spread(node)
        if node.name not in PREDICATES:
            raise self._at(node, node.name, unknown("test", node.name, PREDICATES).message)

    def loop(self, node: Any) -> None:
        if node.recursive:
            raise self._at(node, "recursive", "recursive loops are not allowed")

    def assignment(self, node: Any) -> None:
        if type(node.target).__name__ == "NSRef":
            raise self._at(node, node.target.name, "set takes a plain name, not a field: data cannot be changed")

    def _attribute_arguments(self, node: Any) -> None:
        """`map(attribute='__class__')` and its kin, and the filter or test that map and select name by text."""
        given = [*node.args, *(keyword.value for keyword in node.kwargs)]
        for argument in given:
            value = getattr(argument, "value", None)
            if isinstance(value, str):
                # `map(attribute="a.b")` and `sort(attribute="a,b")` hold several names in one text.
                for part in value.replace(",", ".").split("."):
                    self._plain(node, part.strip())
        first = getattr(node.args[0], "value", None) if node.args else None
        if node.name == "map" and isinstance(first, str) and first not in FILTERS:
            raise self._at(node, first, unknown("filter", first, FILTERS).message)

    def _plain(self, node: Any, name: str) -> None:
        if name.startswith("__"):
            raise TemplateError(dunder_error(name).message, offset=place_of(self._text, name, node.lineno))

    def _no_spread(self, node: Any) -> None:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise self._at(
                node,
                "*",
                "values cannot be spread with * or **: write them one by one, and dict(a, b) to put mappings together",
            )

    def _at(self, node: Any, word: str, message: str) -> TemplateError:
        return TemplateError(message, offset=place_of(self._text, word, node.lineno))


_CHECKS = {
    "Name": _Inspection.name,
    "Getattr": _Inspection.attribute,
    "Getitem": _Inspection.subscript,
    "Const": _Inspection.constant,
    "Call": _Inspection.call,
    "Filter": _Inspection.filter,
    "Test": _Inspection.test,
    "For": _Inspection.loop,
    "Assign": _Inspection.assignment,
    "AssignBlock": _Inspection.assignment,
}
