"""Connections: one for each execution or trigger and broker, with the channels whose messages it still holds.

A message is held by the channel it came through, and only that channel can acknowledge it. When the channel or its
connection closes, the broker hands the message out again. So nothing here is ever lost by closing it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any

from aiormq.abc import AbstractChannel
from aiormq.connection import Connection

from noetl.base.addresses.guard import AddressGuard
from noetl.tools.amqp.transport import JudgedTransport, connected
from noetl.tools.messaging.request import Broker

HELD_S = 300.0  # a connection that nobody uses, and what it holds
_CLOSE_S = 10.0


class HeldChannel:
    """A channel with messages that are not acknowledged yet, by their tags."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self.token = token_hex(8)
        self.tags: set[int] = set()


class OwnedConnection:
    def __init__(self, connection: Connection, transport: JudgedTransport) -> None:
        self.connection, self._transport = connection, transport
        self.held: dict[str, HeldChannel] = {}
        self.users = 0
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[HeldChannel]:
        """A channel for one operation. It stays open if it holds messages, and closes when the operation fails or is
        cancelled, which gives them back."""
        self._transport.allow_more()
        held = HeldChannel(await self.connection.channel(on_return_raises=True))
        try:
            yield held
        except BaseException:
            # The channel is not trusted after an error; its messages go back to the queue when it closes.
            held.tags.clear()
            raise
        finally:
            if held.tags:
                self.held[held.token] = held
            else:
                self.let_go(held)

    def let_go(self, held: HeldChannel) -> None:
        """Close a channel, beside whatever goes on: a cancelled task does not wait for a broker."""
        self.held.pop(held.token, None)
        closing = asyncio.ensure_future(_closed(held.channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def settled(self) -> None:
        """Every channel that was let go is closed, with what was acknowledged through it."""
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        await self.settled()
        await _closed(self.connection)


class AmqpConnections:
    def __init__(self) -> None:
        self._open: dict[tuple[str, Broker], OwnedConnection] = {}
        self._opening: dict[tuple[str, Broker], asyncio.Lock] = {}
        self._timers: dict[tuple[str, Broker], asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(self, owner: str, broker: Broker, guard: AddressGuard) -> AsyncIterator[OwnedConnection]:
        """The live connection of an owner, made when there is none; it is kept for a while after."""
        key = owner, broker
        # Two tasks of one execution must share a connection: a message can only be acknowledged where it came from.
        async with self._opening.setdefault(key, asyncio.Lock()):
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            owned = self._open.get(key)
            if owned is None or not owned.connection.is_opened:
                owned = self._open[key] = OwnedConnection(*await connected(broker, guard))
            owned.users += 1
        try:
            yield owned
        finally:
            owned.users -= 1
            if not owned.users and self._open.get(key) is owned:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(HELD_S, self._drop, key)

    def holder(self, owner: str, token: str) -> tuple[OwnedConnection, HeldChannel] | None:
        """The channel that holds messages of a receipt; none once it is closed."""
        for (who, _), owned in self._open.items():
            held = owned.held.get(token)
            if who == owner and held is not None and not held.channel.is_closed:
                return owned, held
        return None

    def release(self, owner: str) -> None:
        for key in [key for key in self._open if key[0] == owner]:
            self._drop(key)

    async def close(self) -> None:
        for key in list(self._open):
            self._drop(key)
        await asyncio.gather(*self._ending)

    def _drop(self, key: tuple[str, Broker]) -> None:
        self._opening.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        ending = asyncio.ensure_future(self._open.pop(key).close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


async def _closed(what: Any) -> None:
    with suppress(Exception):  # it may be gone already, and nobody waits for it
        async with asyncio.timeout(_CLOSE_S):
            await what.close()
