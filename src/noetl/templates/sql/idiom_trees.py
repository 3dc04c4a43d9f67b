"""Idioms in syntax trees: where a template doubles quotes, writes them, or writes words of SQL (`sql.idioms`).

Imported on the first template that may hold one, as the parser is. Trees are changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jinja2 import nodes

from noetl.templates.syntax import children

_CONSTANTS = {"null": None, "true": True, "false": False}
_MOMENTS = frozenset({"current_date", "current_time", "current_timestamp", "now()", "localtimestamp"})
_DEFAULT = frozenset({"default"})


def drop_escapes(tree: Any, quote: str) -> bool:
    """Leave the doubling of `quote` out of what a template writes; whether there was any."""
    holders = [output.nodes for output in _outputs(tree)]
    dropped = [_drop(holder, index, quote) for holder in holders for index in range(len(holder))]
    return True in dropped


def read_values(tree: Any) -> tuple[bool, bool]:
    """Read a template of one expression as the SQL that its text would be: whether that changed it, and whether it
    writes quotes itself."""
    reading = _Reading(_MOMENTS | _DEFAULT)
    holder = tree.body[0].nodes
    holder[0] = reading.value(holder[0])
    return reading.changed, reading.quotes


def read_block_values(tree: Any) -> bool:
    """Read every expression of a template with blocks that stands outside of quotes; whether that changed one."""
    reading, inside = _Reading(_MOMENTS), 0
    for output in _outputs(tree):
        for index, node in enumerate(output.nodes):
            if type(node).__name__ == "TemplateData":
                inside += node.data.count("'")
            elif inside % 2 == 0:
                output.nodes[index] = reading.value(node)
    return reading.changed


def joining(node: Any) -> str | None:
    """What `list | join('…')` puts between the items, where it is a constant; None for every other expression."""
    if type(node).__name__ != "Filter" or node.name != "join" or node.kwargs or len(node.args) != 1:
        return None
    between = node.args[0]
    return between.value if type(between).__name__ == "Const" and isinstance(between.value, str) else None


def _outputs(node: Any) -> Iterator[Any]:
    """What a template writes, in the order of its text."""
    if type(node).__name__ == "Output":
        yield node
        return
    for below in children(node):
        yield from _outputs(below)


def _drop(holder: list[Any], index: int, quote: str) -> bool:
    """Leave `replace(quote, quote quote)` out of the expression at `holder[index]`, wherever its text comes out."""
    dropped = False
    while (inside := _escaped(holder[index], quote)) is not None:
        holder[index], dropped = inside, True
    node = holder[index]
    for field in _COMES_OUT.get(type(node).__name__, ()):
        below = getattr(node, field)
        if isinstance(below, list):
            dropped = True in [_drop(below, each, quote) for each in range(len(below))] or dropped
        elif below is not None:
            box = [below]
            dropped = _drop(box, 0, quote) or dropped
            setattr(node, field, box[0])
    return dropped


# Where in an expression the text stands that comes out of it.
_COMES_OUT = {
    "Filter": ("node",),
    "Call": ("node",),
    "Getattr": ("node",),
    "CondExpr": ("expr1", "expr2"),
    "Concat": ("nodes",),
    "Mod": ("right",),
    "Tuple": ("items",),
    **dict.fromkeys(("Add", "Or", "And"), ("left", "right")),
}


def _escaped(node: Any, quote: str) -> Any:
    """The text that `node` doubles the quotes of: `x | replace(…)` or `x.replace(…)`."""
    kind = type(node).__name__
    if kind == "Filter" and node.name == "replace" and _constants(node.args) == [quote, quote * 2]:
        return node.node
    if kind == "Call" and type(node.node).__name__ == "Getattr" and node.node.attr == "replace":
        return node.node.node if _constants(node.args) == [quote, quote * 2] else None
    return None


def _constants(nodes: Sequence[Any]) -> list[Any]:
    return [node.value if type(node).__name__ == "Const" else None for node in nodes]


class _Reading:
    """Reads an expression as the SQL that its text would be."""

    def __init__(self, words: frozenset[str]) -> None:
        self._words = words  # constants of the author that are SQL
        self.changed = False
        self.quotes = False

    def value(self, node: Any) -> Any:
        match type(node).__name__:
            case "CondExpr":
                node.expr1 = self.value(node.expr1)
                node.expr2 = self.value(node.expr2) if node.expr2 is not None else None
            case "Or":
                node.left, node.right = self.value(node.left), self.value(node.right)
            case "Filter" if node.name in ("default", "d"):
                node.node = self.value(node.node) if node.node is not None else None
                node.args[:1] = [self.value(each) for each in node.args[:1]]
            case "Const":
                return self._constant(node)
            case _:
                return self._quoted(node)
        return node

    def _constant(self, node: Any) -> Any:
        text = node.value.strip().lower() if isinstance(node.value, str) else None
        if text in _CONSTANTS:
            self.changed = True
            return nodes.Const(_CONSTANTS[text], lineno=node.lineno)
        if text in self._words:
            self.changed = True
            return nodes.Filter(node, "sql", [], [], None, None, lineno=node.lineno)
        if isinstance(node.value, str) and _in_quotes(node.value):
            self.changed = self.quotes = True
            return nodes.Const(node.value[1:-1].replace("''", "'"), lineno=node.lineno)
        return node

    def _quoted(self, node: Any) -> Any:
        """`"'" ~ x ~ "'"` and its kin: the text between the quotes."""
        pattern = _pattern(node)
        if pattern is not None and _in_quotes(pattern.value):
            pattern.value = pattern.value[1:-1].replace("''", "'")
            self.changed = self.quotes = True
            return node
        pieces = _pieces(node)
        first, last = _constants([pieces[0], pieces[-1]])
        if len(pieces) < 2 or not (_opens(first) and _opens(last, at=-1)):
            return node
        self.changed = self.quotes = True
        texts: list[Any] = [nodes.Const(first[1:], lineno=1), *pieces[1:-1], nodes.Const(last[:-1], lineno=1)]
        for text in texts:
            if type(text).__name__ == "Const" and isinstance(text.value, str):
                text.value = text.value.replace("''", "'")
        return nodes.Concat(texts, lineno=node.lineno)


def _pattern(node: Any) -> Any:
    """The constant that `"'%s'" % x` fills."""
    pattern: Any = node.left if type(node).__name__ == "Mod" else None
    return pattern if type(pattern).__name__ == "Const" and isinstance(pattern.value, str) else None


def _pieces(node: Any) -> list[Any]:
    """The texts that `~` or `+` puts together, in order."""
    match type(node).__name__:
        case "Concat":
            return [piece for each in node.nodes for piece in _pieces(each)]
        case "Add":
            return [*_pieces(node.left), *_pieces(node.right)]
        case _:
            return [node]


def _in_quotes(text: str) -> bool:
    return len(text) > 1 and _opens(text) and _opens(text, at=-1)


def _opens(text: Any, at: int = 0) -> bool:
    return isinstance(text, str) and text[at : at + 1 or None] == "'"
