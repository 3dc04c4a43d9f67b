"""The network between workers and servers: every message may be lost, doubled, delayed or overtaken by another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

import msgspec

from noetl.worker.http1 import HttpConnectionError, Reply
from noetl.worker.server_connection import ServerConnection
from tests.simulation.loop import Node, SimulatedLoop, current_node

Sent = tuple[str, str, bytes, str]  # method, target, body, token
Handle = Callable[[str, str, bytes, str], Coroutine[Any, Any, Reply]]


class Faults(msgspec.Struct, kw_only=True):
    """How often what goes wrong: chances of a message, or of a call of the store; counts of what happens to nodes."""

    lost: float = 0.0
    silent: float = 0.0  # of lost ones: the connection stays open, and only a timeout reveals it
    doubled: float = 0.0
    late: float = 0.0  # by up to a minute
    store: float = 0.0  # fails before it has acted, or after
    crashes: int = 0
    freezes: int = 0


class Network:
    """`answering` is called with the node before its response is sent: it may freeze, and receive it when it
    continues."""

    def __init__(
        self, loop: SimulatedLoop, dice: Random, faults: Faults, answering: Callable[[Node | None], None]
    ) -> None:
        self._loop, self._dice, self.faults, self._answering = loop, dice, faults, answering
        self.lost_answers = 0

    def send(self, address: Address, request: Sent) -> asyncio.Future[Reply]:
        answered: asyncio.Future[Reply] = self._loop.create_future()
        copies = 2 if self._happens(self.faults.doubled) else 1
        if address.node is None:
            self._break(answered, was_sent=False)
        elif self._happens(self.faults.lost):
            self._break(answered)
        else:
            for _ in range(copies):
                self._later(self._arrive, address, request, answered, current_node())
        return answered

    def _arrive(self, address: Address, request: Sent, answered: asyncio.Future[Reply], asking: Node | None) -> None:
        node = address.node
        if node is None:
            self._break(answered)
            return
        address.open.add(answered)
        task: asyncio.Task[Reply] = self._loop.create_task(address.handle(*request), context=node.context.copy())
        task.add_done_callback(lambda done: self._reply(address, done, answered, asking), context=Context())

    def _reply(
        self, address: Address, done: asyncio.Task[Reply], answered: asyncio.Future[Reply], asking: Node | None
    ) -> None:
        address.open.discard(answered)
        self._answering(asking)
        if done.cancelled() or done.exception() is not None:
            self._break(answered)
        elif self._happens(self.faults.lost):
            self.lost_answers += 1
            self._break(answered)
        else:
            self._later(_resolve, answered, done.result())

    def cut(self, address: Address) -> None:
        """The process has died: its connections end."""
        for answered in address.open:
            self._break(answered)
        address.open.clear()

    def _break(self, answered: asyncio.Future[Reply], *, was_sent: bool = True) -> None:
        if was_sent and self._happens(self.faults.silent):
            return
        was_idle = was_sent and self._dice.random() < 0.5
        self._later(_fail, answered, HttpConnectionError("the connection broke", was_sent=was_sent, was_idle=was_idle))

    def _later(self, call: Callable[..., None], *values: object) -> None:
        delay_s = self._dice.uniform(0.0005, 0.02)
        if self._happens(self.faults.late):
            delay_s += self._dice.uniform(0.0, 60.0)
        self._loop.call_later(delay_s, call, *values, context=Context())

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._dice.random() < chance


def _resolve(answered: asyncio.Future[Reply], reply: Reply) -> None:
    if not answered.done():
        answered.set_result(reply)


def _fail(answered: asyncio.Future[Reply], problem: HttpConnectionError) -> None:
    if not answered.done():
        answered.set_exception(problem)
        answered.exception()  # a request that timed out does not receive it


class Address:
    """Where a server is reached; `node` is None while none runs there."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.handle: Handle
        self.open: set[asyncio.Future[Reply]] = set()


class SimulatedWire:
    """The HTTP interface of `ServerConnection`, over this network."""

    def __init__(self, network: Network, address: Address, token: str) -> None:
        self._network, self._address, self._token = network, address, token

    async def ask(
        self, method: str, target: str, *, body: bytes | None = None, media_type: str = "", timeout_s: float
    ) -> Reply:
        answered = self._network.send(self._address, (method, target, body or b"", self._token))
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            raise HttpConnectionError(f"no answer within {timeout_s:g} s", was_sent=True) from None

    async def close(self) -> None: ...


class SimulatedLine(ServerConnection):
    """The real line, with its repetitions, over a simulated wire."""

    def __init__(self, network: Network, address: Address, token: str) -> None:
        super().__init__("http://127.0.0.1:1", None)
        self._http = SimulatedWire(network, address, token)  # type: ignore[assignment]  # a stand-in
