"""Diagnostics, and what else checking a text finds, as clients read it (VAL-19)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from noetl.base.diagnostics import Diagnostic
from noetl.base.source import Source
from noetl.language.migrating.fixes import Fix, fix_for, tried_fixes
from noetl.net.net import Net, content_hash, tasks_of
from noetl.tools.kinds import load_kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked


from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.language.proving.certificate import Certificate


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
