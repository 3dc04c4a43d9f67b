"""The control plane as a worker sees it: the worker claims orders and reports, nothing else (WRK-01, WRK-06).

`RetryingControlPlane` is a control plane in the same process; it repeats calls during an outage of the store.

Also cancelled orders: work that their tools have begun elsewhere is ended if the order was withdrawn (SRV-11). A
stopped order may also have moved to another worker, which continues with the same jobs. So the worker asks the server
with an empty report. A slot does not wait for the answer; the end of the worker does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from noetl.base.durations import retry_delay_s
from noetl.base.errors import BackendError, NoetlError, Outage
from noetl.events.orders import Order, PlaybookCall, PlaybookCallResult, Report, ReportResult, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net
from noetl.worker.attempt import Sleep
from noetl.worker.leases import HeldLeases


class ControlPlane(Protocol):
    async def turn(self, turn: Turn) -> TurnAnswer:
        """Store the reports durably and hand out orders, in one call."""

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        """Renew leases (order id -> epoch) for the server's default time or for `ttls`; returns the orders that this
        worker no longer holds."""

    async def resumed(self, execution_id: str) -> None:
        """Return once the execution is not paused."""

    async def net(self, net_hash: str) -> Net:
        """The compiled playbook of an order."""

    async def secret(self, ask: Ask) -> Material:
        """One secret, for the holder of an order, in memory only (KEY-07). Raises ToolError `keychain.unresolved`."""

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        """Start a nested playbook, and wait for its end if `call.wait`. Raises ToolError `playbook.failed` with the
        reason if it cannot be started."""

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        """Cancel the child, since its caller no longer waits for it."""

    async def schema(self, named: str) -> Any:
        """The schema of results that is registered under a name (RES-07); None if there is none."""

    def keep(self, value: Any, execution_id: str) -> Reference:
        """Store a value of an execution that is too large for an event, and return its reference."""

    def load(self, reference: Reference) -> Any:
        """A stored value."""

    async def keep_table(self, file: Path, execution_id: str) -> Reference:
        """Store a table of an execution, masked by its worker, and return its reference. The file is streamed."""

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        """Write a stored table to a file. Raises ToolError `result.missing`."""


# A control plane in the same process, with retries during an outage of the store (reliability.md §3.7).
#
# A remote worker repeats its requests itself. Without this, a restart of the store would end the worker in the server's
# process. A repeated report counts once. Orders of a lost answer are handed out again, since the worker names the ones
# it holds.

T = TypeVar("T")
_log = logging.getLogger(__name__)


class RetryingControlPlane:
    """`leases` are those that its worker holds."""

    def __init__(self, control_plane: ControlPlane, leases: HeldLeases, *, sleep: Sleep = asyncio.sleep) -> None:
        self._control_plane, self._leases, self._sleep = control_plane, leases, sleep
        self._outage = Outage(_log, "the worker waits for the store", "the store answers the worker again")

    async def until(self, done: Callable[[], Awaitable[T]]) -> T:
        """Repeat another call of the worker to the same store until it succeeds."""
        return await self._with_retries(lambda _: done())

    async def _with_retries(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """Repeat `ask` until it succeeds. It gets the number of earlier tries."""
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
            await self._sleep(retry_delay_s(tries, None))
            tries += 1

    async def turn(self, turn: Turn) -> TurnAnswer:
        def send_turn(tries: int) -> Awaitable[TurnAnswer]:
            # The first attempt may have claimed orders whose answer was lost.
            again = msgspec.structs.replace(turn, holding=self._leases.epochs()) if tries else turn
            return self._control_plane.turn(again)

        answer = await self._with_retries(send_turn)
        # An order of the lost answer may come a second time.
        new = (order for order in answer.orders if self._leases.add_if_new(order.order_id, order.lease_epoch))
        return msgspec.structs.replace(answer, orders=tuple(new)) if answer.orders else answer

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        return await self._with_retries(lambda _: self._control_plane.renew(worker_id, leases, ttls))

    async def resumed(self, execution_id: str) -> None:
        await self._with_retries(lambda _: self._control_plane.resumed(execution_id))

    async def net(self, net_hash: str) -> Net:
        return await self._with_retries(lambda _: self._control_plane.net(net_hash))

    async def secret(self, ask: Ask) -> Material:
        return await self._with_retries(lambda _: self._control_plane.secret(ask))

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        return await self._with_retries(lambda _: self._control_plane.call(call))

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        await self._with_retries(lambda _: self._control_plane.give_up(call, reason))

    async def schema(self, named: str) -> Any:
        return await self._with_retries(lambda _: self._control_plane.schema(named))

    def keep(self, value: Any, execution_id: str) -> Reference:
        return self._control_plane.keep(value, execution_id)

    def load(self, reference: Reference) -> Any:
        return self._control_plane.load(reference)

    async def keep_table(self, file: Path, execution_id: str) -> Reference:
        return await self._with_retries(lambda _: self._control_plane.keep_table(file, execution_id))

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._with_retries(lambda _: self._control_plane.fetch_table(reference, into))


Begun = dict[str, Callable[[], Awaitable[Any]]]  # by a name that the tool chose, the function that ends it

PATIENCE_S = 30.0
_WITHDRAWN = (ReportResult.CANCELLED, ReportResult.TERMINAL)


class CancelledOrders:
    def __init__(self, control_plane: ControlPlane, worker_id: str) -> None:
        self._control_plane, self._worker_id = control_plane, worker_id
        self._ending: set[asyncio.Task[None]] = set()

    def end(self, order: Order, begun: Begun, verdict: ReportResult | None = None) -> None:
        """End the work that a stopped order has begun elsewhere, unless another worker holds the order now. `verdict`
        is the answer of the server, if there was one."""
        if begun:
            ending = asyncio.ensure_future(self._end(order, dict(begun), verdict))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def settled(self) -> None:
        """Return once all of it was tried."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _end(self, order: Order, begun: Begun, verdict: ReportResult | None) -> None:
        try:
            # Bounded: the worker waits for this before it ends.
            async with asyncio.timeout(PATIENCE_S):
                if (verdict or await self._verdict(order)) not in _WITHDRAWN:
                    return
                # All of them, even if one fails: a job that is left running costs money.
                ended = await asyncio.gather(*(end() for end in begun.values()), return_exceptions=True)
        except (NoetlError, TimeoutError) as problem:
            ended = [problem]
        for one in ended:
            if isinstance(one, Exception):  # only its kind is logged: the message may hold a secret
                kind = getattr(one, "kind", type(one).__name__)
                _log.warning("something that order %s had begun could not be ended: %s", order.order_id, kind)

    async def _verdict(self, order: Order) -> ReportResult:
        nothing = Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id=self._worker_id,
            entries=(),
        )
        return (await self._control_plane.turn(Turn(worker_id=self._worker_id, reports=(nothing,)))).verdicts[0]
