"""Impossible SQL: what can be told from the author's text alone, before there is a value (design.md §8)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.plan import Bare, Code, MisplacedError, Piece, QuotedName, QuotedText, Word, plan
from noetl.templates.sql.positions import SqlPosition
from noetl.templates.sql.segments import Hole, has_blocks

KEYCHAIN = ("keychain",)


class Impossible(msgspec.Struct, frozen=True):
    """Why SQL can never run, and where in the text that is, if it can be told."""

    why: str
    at: int | None = None


def impossible(text: str) -> Impossible | None:
    """Why no value can make this SQL run; None for SQL that some value can. TemplateError where it does not parse."""
    try:
        if has_blocks(text):
            from noetl.templates.sql.blocks import usable

            usable(text)  # where values will stand is known only when the blocks have run
            return None
        statements = plan(text)
    except MisplacedError as problem:
        return Impossible(problem.message, problem.hole.at)
    except ToolError as problem:
        return Impossible(problem.message)
    for statement in statements:
        for piece in statement.pieces:
            for hole in _unbound(piece):
                if hole.reads(KEYCHAIN):
                    why = f"{hole.source} reads a secret where SQL takes no parameter, and a secret can only be bound"
                    return Impossible(why, hole.at)
    return None


def _unbound(piece: Piece) -> Iterator[Hole]:
    """The templates of a piece that become text of the statement whatever they give."""
    match piece:
        case Bare(hole, place, bindable) if place is SqlPosition.NAME or not bindable:
            yield hole
        case QuotedText(texts, bindable) if not bindable:
            yield from (text for text in texts if isinstance(text, Hole))
        case Word(texts) | QuotedName(texts) | Code(_, texts):
            yield from (text for text in texts if isinstance(text, Hole))
