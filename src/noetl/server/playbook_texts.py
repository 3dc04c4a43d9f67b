"""Playbook texts that clients send, as JSON or plain YAML, checked or migrated in a thread (MIG-05).

The first text imports checker and migrator, so that a server starts without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import Request

from noetl.base.diagnostics import Diagnostic, Severity, Source
from noetl.language.migrating.edits import Fix
from noetl.language.reading.playbook import Dialect
from noetl.net.net import Net, content_hash, tasks_of
from noetl.server.bodies import JSON, YAML, body_of, media_type, read, require_media_type
from noetl.server.computations import computed, computed_for_start
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.store.installation import CatalogRow
from noetl.tools.kinds import load_kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.language.conversion import Conversion
    from noetl.language.migrating.notes import Note
    from noetl.language.proving.certificate import Certificate


class DiagnosticView(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is the place in the document; lines and columns count from one. `fix` is the hint as a text edit, if it is
    one (VAL-19)."""

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
    """The result of checking a text. `verdict` is the verdict of the proofs, null for a text with errors. `migration`
    is the outcome that a migration of a text with errors to v10 would have: "migrated", "needs a person" or "refused";
    null if the text only has misspelled words."""

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


def diagnostic_view(diagnostic: Diagnostic, fix: Fix | None = None) -> DiagnosticView:
    span = diagnostic.span
    return DiagnosticView(
        code=diagnostic.code,
        severity=diagnostic.severity.value,
        message=diagnostic.message,
        hint=diagnostic.hint,
        path=diagnostic.path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        witness=list(diagnostic.witness),
        fix=fix,
    )


def diagnostic_views(diagnostics: Iterable[Diagnostic], source: Source | None = None) -> list[DiagnosticView]:
    """The views of diagnostics, with fixes if `source` is their text."""
    if source is None:
        return [diagnostic_view(diagnostic) for diagnostic in diagnostics]
    from noetl.language.migrating.fixes import fix_for

    return [diagnostic_view(diagnostic, fix_for(diagnostic, source)) for diagnostic in diagnostics]


def playbook_outline(checked: Checked, *, migration: str | None = None) -> Outline:
    """The outline of a checked text. Each fix was tried: one that does not help is left out. This takes as long as
    several checks of the text, so call it in a thread."""
    from noetl.language.migrating.fixes import tried_fixes

    net = checked.net
    fixes = tried_fixes(checked, load_kinds())
    return Outline(
        dialect=checked.dialect.value if checked.dialect is not None else None,
        valid=checked.ok,
        diagnostics=[diagnostic_view(diagnostic, fixes.get(diagnostic)) for diagnostic in checked.diagnostics],
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


def certificate_view(certificate: Certificate) -> dict[str, Any]:
    """The verdict, its findings with their places in the text, and witnesses."""
    view: dict[str, Any] = msgspec.to_builtins(certificate)
    view["findings"] = [msgspec.to_builtins(finding) for finding in diagnostic_views(certificate.findings)]
    return view


class PlaybookText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A playbook text. `dialect` forces v10, v10-io, v2-eval or v2-case instead of detecting it."""

    source: str
    dialect: Dialect | None = None
    strict: bool = False
    name: str = "playbook.yaml"


async def text_of(request: Request) -> PlaybookText:
    """The text in the body: JSON {source, …}, or plain YAML."""
    require_media_type(request, (*JSON, *YAML))
    if media_type(request) in JSON:
        return await read(request, PlaybookText)
    return PlaybookText(source=decode_text(await body_of(request)))


def decode_text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ProblemDetails(400, f"the text is not UTF-8: byte {problem.start}") from None


async def check_text(text: PlaybookText, *, proofs: bool = True, for_start: bool = False) -> Checked:
    """Check a text in a thread; nothing of it is run (reliability.md §2.2). `for_start`: to start or register it."""

    def run_check() -> Checked:
        from noetl.language.checking import check

        source = Source(text.name, text.source)
        return check(source, kinds=load_kinds(), dialect=text.dialect, strict=text.strict, proofs=proofs)

    # Checking a large text takes seconds of processor time; other requests are answered meanwhile.
    return await (computed_for_start(run_check) if for_start else computed(run_check))


def playbook_problem(checked: Checked, *, migration: str | None = None) -> ProblemDetails:
    """422 with all diagnostics of a text. `migration` is the outcome of a migration, if known."""
    count = " and ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for word in ("error", "warning")
        if (number := sum(diagnostic.severity == word for diagnostic in checked.refusals))
    )
    # Without errors, only a strict server refuses the warnings.
    count += (
        ", which are refused here"
        if checked.strict and not any(diagnostic.code[0] == "E" for diagnostic in checked.refusals)
        else ""
    )
    views = [msgspec.to_builtins(diagnostic) for diagnostic in diagnostic_views(checked.diagnostics, checked.source)]
    more: dict[str, Any] = {} if migration is None else {"migration": migration}
    return ProblemDetails(422, f"this playbook has {count}", kind="playbook", diagnostics=views, **more)


_KEPT = 500  # versions whose diagnostics are cached; the oldest is dropped first


async def diagnostics_of(services: Services, row: CatalogRow) -> list[DiagnosticView]:
    """The errors and warnings of a registered version; every start returns them. There may be errors, because a newer
    release may refuse what an older one registered. A version never changes, so its text is checked once per server
    process. A version without a text has none."""
    if row.source is None:
        return []
    cache, key = services.caches.warnings, (row.path, row.version)
    if key not in cache:
        checked = await check_text(PlaybookText(source=row.source), for_start=True)
        # Dictionaries keep the order of insertion, so the first key is the oldest.
        while len(cache) >= _KEPT:
            del cache[next(iter(cache))]
        cache[key] = diagnostic_views(
            diagnostic for diagnostic in checked.diagnostics if diagnostic.severity is not Severity.NOTE
        )
    return cache[key]


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    line: int
    column: int
    message: str
    way_out: str


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is "migrated", "already v10" or "needs a person". `blocked` lists the places that need a person;
    everything else in `source` is v10."""

    source: str
    outcome: str
    notes: list[Remark]
    blocked: list[Remark]


async def conversion_of(name: str, text: str, dialect: Dialect | None = None) -> Conversion:
    """Convert a text to v10 in a thread."""

    def convert_text() -> Conversion:
        from noetl.language.conversion import convert

        return convert(Source(name, text), kinds=load_kinds(), dialect=dialect)

    return await computed(convert_text)


def migration_view(conversion: Conversion) -> Migrated:
    """A conversion as clients see it; 422 if it has no text."""
    from noetl.language.conversion import ConversionOutcome

    if conversion.text is None or conversion.outcome is ConversionOutcome.REFUSED:
        # Report errors of the author's own text first; `after` is a generated text.
        raise playbook_problem(conversion.before if not conversion.before.ok else conversion.after or conversion.before)
    return Migrated(
        source=conversion.text,
        outcome=conversion.outcome.value,
        notes=[_remark(note) for note in conversion.notes],
        blocked=[_remark(note) for note in conversion.blocked],
    )


async def migrated_text(text: str) -> str:
    """The v10 form of a text; 422 if a person is needed."""
    view = migration_view(await conversion_of("playbook.yaml", text))
    if view.blocked:
        places = [msgspec.to_builtins(place) for place in view.blocked]
        raise ProblemDetails(422, "this playbook cannot be migrated without a person", kind="migration", blocked=places)
    return view.source


async def migration_outcome(checked: Checked) -> str | None:
    """The outcome of a migration of a refused text. None if it would only correct typos: the diagnostics say that
    already, and the text is v10."""
    conversion = await conversion_of(checked.source.name, checked.source.text)
    return None if conversion.typos_only else conversion.outcome.value


def _remark(note: Note) -> Remark:
    return Remark(
        path=note.path, line=note.span.line, column=note.span.column, message=note.message, way_out=note.way_out
    )
