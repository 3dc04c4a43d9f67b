"""Playbook texts that clients send: read from a JSON body or as they are, checked or migrated away from the event loop
(MIG-05).

Checker and migrator are imported by the first text that needs them: a server that starts does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import Request

from noetl.base.diagnostics import Diagnostic, Severity
from noetl.base.source import Source
from noetl.language.migrating.fixes import Fix, fix_for, tried_fixes
from noetl.language.reading.playbook import Dialect
from noetl.net.net import Net, content_hash, tasks_of
from noetl.server.bodies import JSON, YAML, body_of, media_type, read, require
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.store.installation import CatalogRow
from noetl.tools.kinds import load_kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.language.conversion import Conversion
    from noetl.language.migrating.notes import Note
    from noetl.language.proving.certificate import Certificate

# Diagnostics, and what else checking a text finds, as clients read it (VAL-19).


class DiagnosticView(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is the place in the document, lines and columns count from one. `fix` is the hint as a change of the text,
    where it is one."""

    code: str
    severity: str
    message: str
    hint: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    witness: list[str]
    fix: Fix | None = None


class TaskOutline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str


class StepOutline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tasks: list[TaskOutline]
    looped: bool
    waits: bool


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a checked text is. `verdict` is what could be proved of its net; null where it has errors. `migration` is
    then what a migration to v10 would come to: "migrated", "needs a person" or "refused"."""

    dialect: str | None
    valid: bool
    diagnostics: list[DiagnosticView]
    name: str | None
    path: str | None
    version: str | None
    entry: str | None
    net_hash: str | None
    verdict: str | None
    steps: list[StepOutline]
    migration: str | None = None


def diagnostic_view(found: Diagnostic, source: Source | None = None) -> DiagnosticView:
    span = found.span
    return DiagnosticView(
        code=found.code,
        severity=found.severity.value,
        message=found.message,
        hint=found.hint,
        path=found.path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        witness=list(found.witness),
        fix=fix_for(found, source) if source is not None else None,
    )


def all_shown(found: Iterable[Diagnostic], source: Source | None = None) -> list[DiagnosticView]:
    """With the text they are about, fixes are told as well."""
    return [diagnostic_view(one, source) for one in found]


def outlined(checked: Checked, *, migration: str | None = None) -> Outline:
    """With fixes that were tried: one that leaves the text as wrong as it was is not offered. Takes as long as some
    checks of the text."""
    net = checked.net
    fixes = tried_fixes(checked, load_kinds())
    return Outline(
        dialect=checked.dialect.value if checked.dialect is not None else None,
        valid=checked.ok,
        diagnostics=[msgspec.structs.replace(diagnostic_view(one), fix=fixes.get(one)) for one in checked.diagnostics],
        name=net.name if net is not None else None,
        path=net.path if net is not None else None,
        version=net.version if net is not None else None,
        entry=net.entry if net is not None else None,
        net_hash=content_hash(net) if net is not None else None,
        verdict=checked.certificate.verdict if checked.certificate is not None else None,
        steps=_steps(net) if net is not None else [],
        migration=migration,
    )


def _steps(net: Net) -> list[StepOutline]:
    return [
        StepOutline(
            name=step.name,
            tasks=[TaskOutline(name=task.name, kind=task.kind) for task in tasks_of(step)],
            looped=bool(step.loop),
            waits=bool(step.waits),
        )
        for step in net.transitions
    ]


def shown_certificate(found: Certificate) -> dict[str, Any]:
    """The verdict, its findings where they belong in the text, and witnesses."""
    told: dict[str, Any] = msgspec.to_builtins(found)
    told["findings"] = [msgspec.to_builtins(one) for one in all_shown(found.findings)]
    return told


class PlaybookText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A playbook to look at. `dialect` reads it as v10, v10-io, v2-eval or v2-case whatever it looks like."""

    source: str
    dialect: Dialect | None = None
    strict: bool = False
    name: str = "playbook.yaml"


async def text_of(request: Request) -> PlaybookText:
    """The text in the body: JSON {source, …}, or YAML as it is."""
    require(request, (*JSON, *YAML))
    if media_type(request) in JSON:
        return await read(request, PlaybookText)
    return PlaybookText(source=decoded(await body_of(request)))


def decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ProblemDetails(400, f"the text is not UTF-8: byte {problem.start}") from None


async def checked(text: PlaybookText, *, proofs: bool = True) -> Checked:
    """Everything known about a text; nothing of it is run (reliability.md §2.2)."""

    def check_text() -> Checked:
        from noetl.language.checking import check

        source = Source(text.name, text.source)
        return check(source, kinds=load_kinds(), dialect=text.dialect, strict=text.strict, proofs=proofs)

    return await asyncio.to_thread(check_text)


def refused(found: Checked, *, migration: str | None = None) -> ProblemDetails:
    """422 with all that is wrong with a text. `migration` is what a migration of it would come to, where that is
    known."""
    count = " and ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for word in ("error", "warning")
        if (number := sum(one.severity == word for one in found.refusals))
    )
    count += ", which are refused here" if found.strict and not any(d.code[0] == "E" for d in found.refusals) else ""
    shown = [msgspec.to_builtins(one) for one in all_shown(found.diagnostics, found.source)]
    more: dict[str, Any] = {} if migration is None else {"migration": migration}
    return ProblemDetails(422, f"this playbook has {count}", kind="playbook", diagnostics=shown, **more)


_KEPT = 500  # versions whose warnings are remembered; past it the oldest is forgotten


async def diagnostics_of(services: Services, row: CatalogRow) -> list[DiagnosticView]:
    """The errors and warnings of a registered version, told with every start of it. Errors, because a newer release may
    refuse what was registered. A version never changes, so its text is checked once in the life of a server process;
    one that came without a text (a net from elsewhere) has none."""
    if row.source is None:
        return []
    known, key = services.warnings, (row.path, row.version)
    if key not in known:
        found = await checked(PlaybookText(source=row.source))
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[key] = all_shown(one for one in found.diagnostics if one.severity is not Severity.NOTE)
    return known[key]


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
