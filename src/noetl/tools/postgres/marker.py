"""Marker: `spec.exactly_once` (reliability.md §3.4). A row written in the task's own transaction says that its effect
is there; a repeated run finds it and returns what the first one returned."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import ToolError

TABLE = "noetl_effects"
_LOCK = 0x6E6F65746C  # any number of our own: two workers must not create the table at once


async def ensure_table(connection: Any) -> None:
    """The marker table, in the first schema of the search path."""
    if await connection.fetchval("SELECT to_regclass($1)::text", TABLE) is not None:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} "
            "(key text PRIMARY KEY, recorded_at timestamptz NOT NULL DEFAULT now(), result text)"
        )


async def claim(connection: Any, key: str) -> Any:
    """None when this run is the first with `key`: do it. Otherwise what the first one returned, as `(result,)`.

    A run that is still open elsewhere is waited for: its row is locked until it commits or rolls back.
    """
    taken = await connection.fetchval(
        f"INSERT INTO {TABLE} (key) VALUES ($1) ON CONFLICT DO NOTHING RETURNING key",  # noqa: S608
        key,
    )
    if taken is not None:
        return None
    recorded = await connection.fetchval(f"SELECT result FROM {TABLE} WHERE key = $1", key)  # noqa: S608
    if recorded is None:
        raise ToolError("pg.error", f'the effect "{key}" is recorded, but not what it returned', retryable=True)
    return (msgspec.json.decode(recorded),)


async def record(connection: Any, key: str, result: Any) -> None:
    await connection.execute(
        f"UPDATE {TABLE} SET result = $2 WHERE key = $1",  # noqa: S608
        key,
        msgspec.json.encode(result).decode(),
    )
