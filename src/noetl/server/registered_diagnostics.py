"""Warnings of registered playbooks: what checking the text of a version finds, told with every start of it.

A version never changes, so its text is checked once in the life of a server process. A version that came without a text
(a net from elsewhere) has none.
"""

from __future__ import annotations

from noetl.base.diagnostics import Severity
from noetl.server.playbook_texts import PlaybookText, checked
from noetl.server.services import Services
from noetl.server.views.diagnostics import DiagnosticView, all_shown
from noetl.store.catalog import CatalogRow

_KEPT = 500  # versions whose warnings are remembered; past it the oldest is forgotten


async def diagnostics_of(services: Services, row: CatalogRow) -> list[DiagnosticView]:
    """The errors and warnings of a version. Errors, because a newer release may refuse what was registered."""
    if row.source is None:
        return []
    known, key = services.warnings, (row.path, row.version)
    if key not in known:
        found = await checked(PlaybookText(source=row.source))
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[key] = all_shown(one for one in found.diagnostics if one.severity is not Severity.NOTE)
    return known[key]
