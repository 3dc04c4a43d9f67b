"""All that a worker knows of the server (WRK-01, WRK-06). It claims from it and reports to it, nothing else.

`RetryingControlPlane` is one in the same process, which is asked again while its store is away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from noetl.base.errors import BackendError, Outage
from noetl.events.orders import PlaybookCall, PlaybookCallResult, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net
from noetl.worker.attempt import Sleep
from noetl.worker.backoff import delay_s
from noetl.worker.leases import HeldLeases


class ControlPlane(Protocol):
    async def turn(self, turn: Turn) -> TurnAnswer:
        """Record what is reported, durably, and hand out orders, in one call."""

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        """Prolong leases (order id -> epoch), by the server's usual time or by `ttls`; gives the orders that are no
        longer held."""

    async def resumed(self, execution_id: str) -> None:
        """Return once the execution is not paused."""

    async def net(self, net_hash: str) -> Net:
        """The compiled playbook of an order."""

    async def secret(self, ask: Ask) -> Material:
        """One secret, for the holder of an order, in memory only (KEY-07). ToolError `keychain.unresolved`."""

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        """Start a nested playbook, and wait for its end if asked to. ToolError `playbook.failed` says why not."""

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        """Nobody waits for this child any more: cancel it."""

    async def schema(self, named: str) -> Any:
        """The schema of results that is registered under a name (RES-07); None where there is none."""

    def keep(self, value: Any, execution_id: str = "") -> Reference:
        """Store a value of an execution that is too large for an event, and say where."""

    def load(self, reference: Reference) -> Any:
        """A stored value."""

    async def keep_table(self, file: Path, execution_id: str = "") -> Reference:
        """Store a table of an execution, masked by its worker, and say where. The file is streamed."""

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        """Write a stored table to a file. ToolError `result.missing`."""


# A control plane in the same process, asked again for as long as its store is away (reliability.md §3.7).
#
# A remote worker repeats its requests itself. Here a restarted store would end the worker that runs beside its server.
# What is reported twice counts once. Orders of a lost answer are handed out again, since the worker says which ones it
# knows.

T = TypeVar("T")
_log = logging.getLogger(__name__)


class RetryingControlPlane:
    """`leases` are those that its worker holds."""

    def __init__(self, control_plane: ControlPlane, leases: HeldLeases, *, sleep: Sleep = asyncio.sleep) -> None:
        self._control_plane, self._leases, self._sleep = control_plane, leases, sleep
        self._outage = Outage(_log, "the worker waits for the store", "the store answers the worker again")

    async def until(self, done: Callable[[], Awaitable[T]]) -> T:
        """What else its worker needs of the same store."""
        return await self._retried(lambda _: done())

    async def _retried(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """The answer, however long it takes to get one. `ask` is told how often it was tried before."""
        tries = 0
        while True:
            began_at = time.monotonic()
            try:
                answer = await ask(tries)
            except BackendError as problem:
                self._outage.failed(problem, began_at=began_at)
            else:
                self._outage.worked()
                return answer
            await self._sleep(delay_s(tries, None))
            tries += 1

    async def turn(self, turn: Turn) -> TurnAnswer:
        def send_turn(tries: int) -> Awaitable[TurnAnswer]:
            # The first attempt may have claimed orders whose answer was lost.
            again = msgspec.structs.replace(turn, holding=self._leases.held()) if tries else turn
            return self._control_plane.turn(again)

        answer = await self._retried(send_turn)
        # An order that the lost answer had brought after all comes a second time.
        new = (order for order in answer.orders if self._leases.add_if_new(order.order_id, order.lease_epoch))
        return msgspec.structs.replace(answer, orders=tuple(new)) if answer.orders else answer

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        return await self._retried(lambda _: self._control_plane.renew(worker_id, leases, ttls))

    async def resumed(self, execution_id: str) -> None:
        await self._retried(lambda _: self._control_plane.resumed(execution_id))

    async def net(self, net_hash: str) -> Net:
        return await self._retried(lambda _: self._control_plane.net(net_hash))

    async def secret(self, ask: Ask) -> Material:
        return await self._retried(lambda _: self._control_plane.secret(ask))

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        return await self._retried(lambda _: self._control_plane.call(call))

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        await self._retried(lambda _: self._control_plane.give_up(call, reason))

    async def schema(self, named: str) -> Any:
        return await self._retried(lambda _: self._control_plane.schema(named))

    def keep(self, value: Any, execution_id: str = "") -> Reference:
        return self._control_plane.keep(value, execution_id)

    def load(self, reference: Reference) -> Any:
        return self._control_plane.load(reference)

    async def keep_table(self, file: Path, execution_id: str = "") -> Reference:
        return await self._retried(lambda _: self._control_plane.keep_table(file, execution_id))

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._retried(lambda _: self._control_plane.fetch_table(reference, into))
