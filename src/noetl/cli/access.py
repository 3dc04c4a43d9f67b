"""Access from the command line: what administrators do on a server, or on the store itself; either is audited.

Whoever can write the store needs no token; the name of the user of this machine stands in the log then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from noetl.cli.queries import QueryRefused, refusals

if TYPE_CHECKING:
    from noetl.store.contract import Store

Found = TypeVar("Found")


def on_store(db: str | None, use: Callable[[Store], Awaitable[Found]]) -> Found:
    """What `use` gives for the store, which is made if there is none; what is refused ends the command with 4."""
    from noetl.store.open_store import open_store

    async def used() -> Found:
        store, _ = await open_store(db, reading_will_do=True)
        try:
            return await use(store)
        finally:
            await store.close()

    with refusals():
        return asyncio.run(used())


async def note(store: Store, action: str, what: str) -> None:
    """Write down what was done here."""
    from noetl.base.clock import SystemClock
    from noetl.store.audit import AuditEntry

    entry = AuditEntry(
        at=SystemClock().now(), actor=actor(), action=action, object=what, address="this machine", outcome="done"
    )
    await store.audit.append([entry])


def actor() -> str:
    import getpass

    try:
        return f"cli {getpass.getuser()}"
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "cli"


def readable(value: Any) -> dict[str, Any]:
    """A record as a server would tell it: times as text."""
    import msgspec

    from noetl.base.clock import rfc3339

    fields = msgspec.to_builtins(value)
    return {name: rfc3339(told) if isinstance(told, float) else told for name, told in fields.items()}


def when(time: str | None) -> str:
    """A time for a table."""
    return time[:19] + "Z" if time is not None else "-"


def nothing_called(what: str, name: str) -> QueryRefused:
    from noetl.cli.terminal import visible

    return QueryRefused(f'there is no {what} "{visible(name)}"')
