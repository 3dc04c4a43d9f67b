"""Cases: a playbook with everything around it, independent of the place where it runs.

The same case runs in every place: its endpoints are served by the test's process, its tables are in a schema of its
own, its scripted tools ask the test for their answers, and external callers use a `Line`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from noetl.events.envelope import Event
from tests.playbook_runs import Scripted
from tests.servers.http import Script

_POLL_S = 0.03
_PATIENCE_S = 180.0
_DELAY = re.compile(r"\b((?:initial_)?delay: )(\d+(?:\.\d+)?)(?=[\s,}])")


class Line(Protocol):
    """The interface of an external caller to one execution, in any place."""

    execution_id: str

    async def seen(self) -> Sequence[Event]:
        """The events recorded so far."""

    async def message(self, name: str, correlation: Mapping[str, Any], payload: Any = None) -> None: ...

    async def signal(self, name: str) -> None:
        """Send one to this execution."""

    async def inject(self, name: str, data: Any = None) -> None: ...

    async def complete_task(self, values: Mapping[str, Any], role: str) -> None:
        """Complete the human task of this execution, as one who has a role."""

    async def cancel_timer(self, step: str) -> None: ...


Say = Callable[[Line], Awaitable[None]]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """`sql` makes the tables that `tables` are read back from afterwards. `kinds` are the kinds of tools that
    `script` answers for. `credentials` are names that the playbook expects to be known. `children` are registered
    first. `early` is sent before it starts, `say` while it runs. `varying` are variables that differ between runs."""

    name: str
    text: str | Callable[[], str]  # a function where a text is expensive to make: every process collects all cases
    payload: dict[str, Any] = {}
    routes: Mapping[str, Script] | None = None
    sql: str | None = None
    tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    script: Callable[[], Scripted] = Scripted
    credentials: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    early: Say | None = None
    say: Say | None = None
    varying: tuple[str, ...] = ()

    @property
    def playbook(self) -> str:
        """Its text."""
        return self.text if isinstance(self.text, str) else self.text()


async def until(line: Line, event_type: str, times: int = 1) -> None:
    """Return once the execution has recorded so many events of a type."""
    async with asyncio.timeout(_PATIENCE_S):
        while sum(event.event_type == event_type for event in await line.seen()) < times:
            await asyncio.sleep(_POLL_S)


def hurried(text: str) -> str:
    """The text with its delays between attempts a hundred times shorter: elsewhere time is real."""
    return _DELAY.sub(lambda found: f"{found[1]}{float(found[2]) / 100:g}", text)
