"""Idioms of those for whom SQL is text: `'{{ x | replace("'", "''") }}'`, `{{ "'" ~ x ~ "'" if x else "NULL" }}`.

What they write prepares a value for a text that it will stand in. A bound value needs no such preparation, which would
be stored with it; so what the author wrote is read as the value it is meant to be. Only constants of the author become
SQL here, never a value.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec.structs import replace

from noetl.templates.expression import Template, template_of
from noetl.templates.sql.segments import Hole

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
