"""Keychain entries of one execution: what a declaration leaves to the workload is filled in (KEY-01, design.md §5).

Rendered when a request is evaluated and whenever an entry is looked up again, with the same workload each time. No
entry reads another one: none is resolved yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.source import is_template
from noetl.net.net import KeychainEntry
from noetl.templates.authored import Authored
from noetl.templates.render import render
from noetl.templates.scope import Scope

UNRESOLVED = "keychain.unresolved"


def filled(entries: Sequence[KeychainEntry], workload: Mapping[str, Any]) -> tuple[KeychainEntry, ...]:
    """The entries with their templates rendered. ToolError `keychain.unresolved` names the one that cannot be."""
    scope = Scope({"workload": workload})
    return tuple(_filled(entry, scope) if _has_templates(entry.lookup) else entry for entry in entries)


def _filled(entry: KeychainEntry, scope: Scope) -> KeychainEntry:
    try:
        return msgspec.structs.replace(entry, lookup=render(Authored(entry.lookup), scope))
    except TemplateError as problem:
        raise ToolError(UNRESOLVED, f'keychain entry "{entry.name}": {problem.message}', entry=entry.name) from None


def _has_templates(value: Any) -> bool:
    match value:
        case str():
            return is_template(value)
        case dict():
            return any(map(_has_templates, value.values()))
        case list():
            return any(map(_has_templates, value))
        case _:
            return False
