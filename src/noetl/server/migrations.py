"""Migrations that clients ask for: the v10 form of a text, with what happened to it (MIG-05).

The migrator is imported by the first text that is migrated: a server that starts does not need it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from noetl.base.source import Source
from noetl.language.reading.playbook import Dialect
from noetl.server.playbook_texts import refused
from noetl.server.problem_details import ProblemDetails
from noetl.tools.kinds import load_kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.language.conversion import Conversion
    from noetl.language.migrating.notes import Note


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    line: int
    column: int
    message: str
    way_out: str


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is "migrated", "already v10" or "needs a person". `blocked` are the places that need a person;
    `source` is v10 but for those."""

    source: str
    outcome: str
    notes: list[Remark]
    blocked: list[Remark]


async def conversion_of(name: str, text: str, dialect: Dialect | None = None) -> Conversion:
    """The conversion of a text, made away from the event loop."""

    def convert_text() -> Conversion:
        from noetl.language.conversion import convert

        return convert(Source(name, text), kinds=load_kinds(), dialect=dialect)

    return await asyncio.to_thread(convert_text)


def migrated(done: Conversion) -> Migrated:
    """What a client is told of a conversion. Problem 422 where there is no text to give."""
    from noetl.language.conversion import ConversionOutcome

    if done.text is None or done.outcome is ConversionOutcome.REFUSED:
        raise refused(done.before if not done.before.ok else done.after or done.before)
    return Migrated(
        source=done.text,
        outcome=done.outcome.value,
        notes=[_remark(one) for one in done.notes],
        blocked=[_remark(one) for one in done.blocked],
    )


async def migrated_text(text: str) -> str:
    """The v10 form of a text. Problem 422 where a person is needed."""
    told = migrated(await conversion_of("playbook.yaml", text))
    if told.blocked:
        places = [msgspec.to_builtins(one) for one in told.blocked]
        raise ProblemDetails(422, "this playbook cannot be migrated without a person", kind="migration", blocked=places)
    return told.source


async def offered(found: Checked) -> str:
    """What a migration of a refused text would come to: the word of its outcome."""
    return (await conversion_of(found.source.name, found.source.text)).outcome.value


def _remark(note: Note) -> Remark:
    return Remark(
        path=note.path, line=note.span.line, column=note.span.column, message=note.message, way_out=note.way_out
    )
