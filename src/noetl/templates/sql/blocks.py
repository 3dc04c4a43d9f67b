"""Blocks in SQL: `{% if %}`, `{% for %}`, `{% set %}` and `{% with %}` choose and repeat text of the author.

The template is run with every value left out and remembered, so that the text which comes out is the author's alone;
what a value may do in it is then settled as in SQL without blocks. Blocks that would make a value out of text
(`{% set x %}…{% endset %}`, `{% filter %}`) are refused: SQL and values would be mixed in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from noetl.base.errors import ToolError
from noetl.templates.budget import Evaluation
from noetl.templates.expression import Template, parse, template_of
from noetl.templates.guards import constant
from noetl.templates.output import leave, written
from noetl.templates.program import expression, label
from noetl.templates.render import ScopeLike
from noetl.templates.sql.idiom_trees import joining
from noetl.templates.sql.lexer import HOLE
from noetl.templates.sql.segments import Hole
from noetl.templates.syntax import children, read_tree
from noetl.templates.values import Missing

# What authors write between the rounds of a loop: `{{ "," if not loop.last }}`.
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
        """What the expression reads. A name that the template itself bound stands for all that the template reads."""
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
    """What an expression chooses between, as far as it is constant; a branch that is left out is no text."""
    if type(node).__name__ == "CondExpr":
        return [*_choices(node.expr1), *(_choices(node.expr2) if node.expr2 is not None else ("",))]
    return [constant(node)]


def _all_nodes(node: Any) -> list[Any]:
    found = [node]
    for each in found:  # grows while it is walked
        found += children(each)
    return found


# Idioms of those for whom SQL is text: `'{{ x | replace("'", "''") }}'`, `{{ "'" ~ x ~ "'" if x else "NULL" }}`.

_ESCAPING = re.compile(r"\breplace\s*\(")
_WRITTEN = re.compile(
    r"""["']\\?'|'"|["']\s*(?:null|true|false|default|current_\w+|now\(\)|localtimestamp)\s*["']""", re.IGNORECASE
)


def unescaped(hole: Hole, quote: str = "'") -> Hole:
    """A template inside of quotes, without the doubling of quotes that would be stored once it is bound."""
    if type(hole) is not Hole or not _ESCAPING.search(hole.source):
        return hole
    single, text = _unescaped_templates(hole.source, quote)
    return replace(hole, template=single, as_text=text) if single is not None else hole


def as_value(hole: Hole) -> tuple[Hole, bool]:
    """A template that stands where a value stands, as the value that its text would be in SQL; and whether it writes
    the quotes itself, so that it can be no name."""
    hole = unescaped(hole)
    if type(hole) is not Hole or not _WRITTEN.search(hole.source):
        return hole, False
    template, quotes = _value_template(hole.source)
    return (replace(hole, template=template), quotes) if template is not None else (hole, False)


def block_template(text: str) -> Template | None:
    """SQL with blocks, its values read likewise; nothing where there is no idiom in it."""
    if not _ESCAPING.search(text) and not _WRITTEN.search(text):
        return None
    from noetl.templates.sql.idiom_trees import drop_escapes, read_block_values
    from noetl.templates.syntax import read_tree

    tree = read_tree(text)
    dropped = drop_escapes(tree, "'")
    return template_of(text, tree) if read_block_values(tree) or dropped else None


@lru_cache(maxsize=1_024)
def _unescaped_templates(source: str, quote: str) -> tuple[Template | None, Template | None]:
    """The template as a value and as text between other text; nothing where it does not double the quote."""
    from noetl.templates.sql.idiom_trees import drop_escapes
    from noetl.templates.syntax import read_tree

    # read anew, since the trees of parsed templates are shared
    tree, text = read_tree(source), read_tree(f".{source}")
    if not drop_escapes(tree, quote):
        return None, None
    drop_escapes(text, quote)
    return template_of(source, tree), template_of(f".{source}", text)


@lru_cache(maxsize=1_024)
def _value_template(source: str) -> tuple[Template | None, bool]:
    from noetl.templates.sql.idiom_trees import drop_escapes, read_values
    from noetl.templates.syntax import read_tree

    tree = read_tree(source)
    drop_escapes(tree, "'")
    changed, quotes = read_values(tree)
    return (template_of(source, tree), quotes) if changed else (None, False)
