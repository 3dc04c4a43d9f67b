"""SQL for which the syntax tree of a template is needed: blocks, and idioms of those for whom SQL is text.

Imported with the first such template, as the parser is. Blocks (`{% if %}`, `{% for %}`, `{% set %}` and `{% with %}`)
choose and repeat text of the author. The template is run with every value replaced by a placeholder, so that the
resulting text is the author's alone; the use of each value is then decided as in SQL without blocks. Blocks that would
make a value out of text (`{% set x %}…{% endset %}`, `{% filter %}`) are refused: SQL and values would be mixed in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import nodes
from msgspec.structs import replace

from noetl.base.errors import ToolError
from noetl.templates.analysis import constant
from noetl.templates.budget import Evaluation
from noetl.templates.expression import Template, parse, template_of
from noetl.templates.output import leave, written
from noetl.templates.program import expression, label
from noetl.templates.render import ScopeLike
from noetl.templates.sql.lexer import HOLE, Hole
from noetl.templates.sql.plan import ESCAPING, WRITTEN
from noetl.templates.syntax import children, read_tree
from noetl.templates.values import Missing

# A separator between the rounds of a loop: `{{ "," if not loop.last }}`.
_SEPARATOR = re.compile(r"\s*(?:[,;()]|AND|OR|UNION(?:\s+ALL)?)?\s*\Z", re.IGNORECASE)
_CAPTURES = {"AssignBlock": "{% set … %}…{% endset %}", "FilterBlock": "{% filter … %}"}


class Filled(Hole, frozen=True):
    """A value that the template gave in one of its rounds, in place of the expression it comes from."""

    given: Any = None
    as_written: str = ""
    roots: frozenset[str] = frozenset()
    items: list[Any] | None = None  # the list that the expression joined, and what it put between the items
    between: str = ""

    def value(self, scope: ScopeLike, now: float | None) -> Any:
        return self.given

    def text(self, scope: ScopeLike, now: float | None) -> str:
        return self.as_written

    def reads(self, names: Collection[str]) -> bool:
        return not self.roots.isdisjoint(names)

    def list_joined_with(self, separator: str) -> Hole | None:
        if self.items is None or "".join(self.between.split()) != separator:
            return None
        return replace(self, given=self.items, items=None)


def expanded(text: str, scope: ScopeLike, now: float | None) -> tuple[str, tuple[Filled, ...]]:
    """The author's text as the blocks choose it, with one HOLE for each value, and the values."""
    recording = _Recording(*usable(text))
    return recording.template.recorded(scope, now, recording), tuple(recording.holes)


@lru_cache(maxsize=256)
def usable(text: str) -> tuple[Template, frozenset[str]]:
    """SQL with blocks, parsed, and the names it binds. ToolError `sql.fragment` for blocks that SQL cannot have."""
    if HOLE in text:
        raise ToolError("sql.fragment", "SQL cannot hold the character U+0000")
    template, nodes = parse(text), _all_nodes(read_tree(text))
    template = block_template(text) or template
    for node in nodes:
        if (found := _CAPTURES.get(type(node).__name__)) is not None:
            raise ToolError(
                "sql.fragment", f"{found} would make SQL out of values; write {{% set x = … %}} for a value"
            )
    return template, frozenset(node.name for node in nodes if type(node).__name__ == "Name" and node.ctx != "load")


class _Recording:
    """Takes the place of writing a value: leaves a HOLE and keeps the value."""

    def __init__(self, template: Template, bound: frozenset[str]) -> None:
        self.template, self._bound = template, bound
        self.holes: list[Filled] = []
        # Everything the template reads: the careful answer where an expression uses a name that the template bound
        # itself.
        self._whole = frozenset(read.root for read in template.references)
        self._roots: dict[int, frozenset[str]] = {}
        self._lists: dict[int, Callable[[Evaluation], Any]] = {}

    def __call__(self, run: Evaluation, node: Any, value: Any) -> str:
        # A separator is the author's own text and not a value: it is unchanged.
        if _separates(node):
            return "" if isinstance(value, Missing) else str(value)
        given = leave(run, value, marks=True)
        items, between = self._joined(run, node)
        self.holes.append(
            Filled(
                self.template,
                f"{{{{ {label(node)} }}}}",
                given=given,
                as_written="" if isinstance(given, dict | list) else run.text(written(run, value)),
                roots=self._roots_of(node),
                items=items,
                between=between,
            )
        )
        return HOLE

    def _joined(self, run: Evaluation, node: Any) -> tuple[list[Any] | None, str]:
        """The list that `list | join(', ')` joins in this round, since SQL may take the list and not its text."""
        if (between := joining(node)) is None:
            return None, ""
        if id(node) not in self._lists:
            self._lists[id(node)] = expression(node.node)
        items = leave(run, self._lists[id(node)](run), marks=True)
        return (items, between) if isinstance(items, list) else (None, "")

    def _roots_of(self, node: Any) -> frozenset[str]:
        """The names that the expression reads. A name bound by the template itself counts as all names that the
        template reads."""
        if id(node) not in self._roots:
            names = {each.name for each in _all_nodes(node) if type(each).__name__ == "Name"}
            self._roots[id(node)] = self._whole | names if names & self._bound else frozenset(names)
        return self._roots[id(node)]


def _separates(node: Any) -> bool:
    """Whether all that can come of it is a separator the author wrote, or nothing."""
    written_here = _choices(node)
    separators = [text for text in written_here if isinstance(text, str) and _SEPARATOR.match(text)]
    return len(separators) == len(written_here) and any(text.strip() for text in separators)


def _choices(node: Any) -> list[Any]:
    """The alternatives of an expression, as far as they are constant; an omitted branch is no text."""
    if type(node).__name__ == "CondExpr":
        return [*_choices(node.expr1), *(_choices(node.expr2) if node.expr2 is not None else ("",))]
    return [constant(node)]


def _all_nodes(node: Any) -> list[Any]:
    found = [node]
    for each in found:  # grows while it is walked
        found += children(each)
    return found


def block_template(text: str) -> Template | None:
    """SQL with blocks, its values read likewise; nothing where there is no idiom in it."""
    if not ESCAPING.search(text) and not WRITTEN.search(text):
        return None
    tree = read_tree(text)
    dropped = drop_escapes(tree, "'")
    return template_of(text, tree) if read_block_values(tree) or dropped else None


# Idioms: where a template doubles quotes, writes them, or writes words of SQL. Trees are changed in place.

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
    """Read every expression outside of quotes in a template with blocks; return whether one changed."""
    reading, inside = _Reading(_MOMENTS), 0
    for output in _outputs(tree):
        for index, node in enumerate(output.nodes):
            if type(node).__name__ == "TemplateData":
                # An odd number of quotes before it: the expression is inside a quoted constant.
                inside += node.data.count("'")
            elif inside % 2 == 0:
                output.nodes[index] = reading.value(node)
    return reading.changed


def joining(node: Any) -> str | None:
    """The separator in `list | join('…')` if it is a constant; None for every other expression."""
    if type(node).__name__ != "Filter" or node.name != "join" or node.kwargs or len(node.args) != 1:
        return None
    between = node.args[0]
    return between.value if type(between).__name__ == "Const" and isinstance(between.value, str) else None


def _outputs(node: Any) -> Iterator[Any]:
    """The outputs of a template, in the order of its text."""
    if type(node).__name__ == "Output":
        yield node
        return
    for below in children(node):
        yield from _outputs(below)


def _drop(holder: list[Any], index: int, quote: str) -> bool:
    """Leave `replace(quote, quote quote)` out of the expression at `holder[index]`, wherever its text comes out."""
    dropped = False
    while (inside := _escape_operand(holder[index], quote)) is not None:
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


# The part of an expression that holds its resulting text.
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


def _escape_operand(node: Any, quote: str) -> Any:
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
