"""Trying a stored credential: the tool that uses its type connects with it, and does nothing else.

A tool that can be asked has a method `check(inputs, context)`, which returns what it reached, and its kind names the
types of credentials it is for (`credential_types`). Tools of plug-ins are found in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from noetl.base.errors import RefusedError, ToolError
from noetl.tools.contract import UNKNOWN, ToolContext
from noetl.tools.kinds import load_kinds
from noetl.tools.registry import Registry

# A person waits for it; a database that starts on demand may take most of a minute.
TIMEOUT_S = 60.0
_SHORTEST = 6  # of a value that is masked, as everywhere


def kind_for(credential_type: str) -> str:
    """The kind whose tool can try credentials of a type. RefusedError names the types that can be tried."""
    kinds = load_kinds()
    found = next((name for name, kind in kinds.items() if credential_type in kind.credential_types), None)
    if found is None:
        known = ", ".join(sorted(["oauth2", *(one for kind in kinds.values() for one in kind.credential_types)]))
        raise RefusedError(
            f'a credential of type "{credential_type}" cannot be tried; these can: {known}. '
            "Name the kind of task that uses it with --kind, such as --kind http --url https://…"
        )
    return found


async def checked(
    name: str, kind: str, fields: Mapping[str, Any], inputs: Mapping[str, Any], registry: Registry
) -> str:
    """What was reached with the credential. RefusedError says why nothing was, without its secrets."""
    try:
        check = getattr(registry.tool(kind), "check", None)
        if check is None:
            able = ", ".join(name for name, known in load_kinds().items() if known.credential_types)
            raise RefusedError(f'the tool "{kind}" has no way to try a credential; these have: {able}')
        async with asyncio.timeout(TIMEOUT_S):
            return _masked(str(await check({"auth": name, **inputs}, _context(fields, registry))), fields)
    except TimeoutError:
        raise RefusedError(f"nothing was reached within {TIMEOUT_S:g} s") from None
    except ToolError as problem:
        code = f" ({problem.details['code']})" if problem.details.get("code") else ""
        raise RefusedError(_masked(problem.message, fields) + code) from None
    finally:
        await registry.close()


def _context(fields: Mapping[str, Any], registry: Registry) -> ToolContext:
    return ToolContext(
        execution_id="credential-check",
        step="check",
        task="check",
        attempt=1,
        task_run_id="credential-check",
        idempotency_key="credential-check",
        spec={},
        name=lambda _: UNKNOWN,
        resolve=lambda _: fields,
        tool=registry.tool,
        data_folders=registry.permissions.data_folders,
        addresses=registry.addresses,
    )


def _masked(text: str, fields: Mapping[str, Any]) -> str:
    """Without the values of the credential; names of hosts and users stay readable."""
    shown = (
        "host",
        "url",
        "server",
        "namespace",
        "endpoint",
        "user",
        "username",
        "account",
        "account_name",
        "database",
        "port",
        "type",
        "adapter",
        "destination",
        "dbname",
        "schema",
    )
    for field, value in fields.items():
        if field not in shown and isinstance(value, str) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return text
