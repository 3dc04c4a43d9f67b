"""Patience: an office in the same process, asked again for as long as its store is away (RELIABILITY 3.7).

A worker elsewhere has its line for that. Here a store that is restarted would end the worker beside its server. What is
reported twice counts once; orders of an answer that never came are given again, for it says which ones it knows of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from noetl.errors import BackendError
from noetl.net.net import Net
from noetl.records.calls import Call, Called
from noetl.records.materials import Ask, Material
from noetl.records.orders import Answer, Turn
from noetl.records.references import Reference
from noetl.worker.attempt import Sleep
from noetl.worker.backoff import delay_s
from noetl.worker.leases import Leases
from noetl.worker.office import Office

T = TypeVar("T")
_log = logging.getLogger(__name__)


class PatientOffice:
    """`leases` are those that its worker holds."""

    def __init__(self, office: Office, leases: Leases, *, sleep: Sleep = asyncio.sleep) -> None:
        self._office, self._leases, self._sleep = office, leases, sleep

    async def until(self, done: Callable[[], Awaitable[T]]) -> T:
        """What else its worker needs of the same store."""
        return await self._asked(lambda _: done())

    async def _asked(self, ask: Callable[[int], Awaitable[T]]) -> T:
        """The answer, however long it takes to get one. `ask` is told how often it was tried before."""
        tries = 0
        while True:
            try:
                return await ask(tries)
            except BackendError as problem:
                if not tries:
                    _log.warning("the store does not answer, the worker waits for it: %s", problem)
            await self._sleep(delay_s(tries, None))
            tries += 1

    async def turn(self, turn: Turn) -> Answer:
        def asked(tries: int) -> Awaitable[Answer]:
            again = msgspec.structs.replace(turn, holding=self._leases.held()) if tries else turn
            return self._office.turn(again)

        answer = await self._asked(asked)
        new = (order for order in answer.orders if self._leases.meet(order.order_id, order.lease_epoch))
        return msgspec.structs.replace(answer, orders=tuple(new)) if answer.orders else answer

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        return await self._asked(lambda _: self._office.renew(worker_id, leases, ttls))

    async def resumed(self, execution_id: str) -> None:
        await self._asked(lambda _: self._office.resumed(execution_id))

    async def net(self, net_hash: str) -> Net:
        return await self._asked(lambda _: self._office.net(net_hash))

    async def secret(self, ask: Ask) -> Material:
        return await self._asked(lambda _: self._office.secret(ask))

    async def call(self, call: Call) -> Called:
        return await self._asked(lambda _: self._office.call(call))

    async def give_up(self, call: Call, reason: str) -> None:
        await self._asked(lambda _: self._office.give_up(call, reason))

    async def schema(self, named: str) -> Any:
        return await self._asked(lambda _: self._office.schema(named))

    def keep(self, value: Any, execution_id: str = "") -> Reference:
        return self._office.keep(value, execution_id)

    def load(self, reference: Reference) -> Any:
        return self._office.load(reference)
