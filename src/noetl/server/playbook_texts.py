"""Playbook texts that clients send: read from a JSON body or as they are, and checked away from the event loop.

The checker is imported by the first text that is checked: a server that starts does not need it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import Request

from noetl.base.source import Source
from noetl.language.reading.playbook import Dialect
from noetl.server.bodies import JSON, YAML, body_of, media_type, read, require
from noetl.server.problem_details import ProblemDetails
from noetl.server.views.diagnostics import all_shown
from noetl.tools.kinds import load_kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked


from noetl.base.diagnostics import Severity
from noetl.server.services import Services
from noetl.server.views.diagnostics import DiagnosticView
from noetl.store.catalog import CatalogRow


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
