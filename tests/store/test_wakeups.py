"""Links between wake-ups: what a broken link could not send goes over the next one, without a further wake-up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from noetl.store import wakeups as wakeups_module
from noetl.store.wakeups import Hear, LinkedWakeups


class Line:
    """A link of a test's own: `sent` is what went over it; `happens` comes before each sending, and may break it."""

    def __init__(self, happens: Callable[[int], None]) -> None:
        self._happens, self.sent, self._tries = happens, list[tuple[str, int]](), 0
        self._news = asyncio.Event()

    async def send(self, pool: str, times: int) -> None:
        self._tries += 1
        await asyncio.sleep(0)
        self._happens(self._tries)
        self.sent.append((pool, times))
        self._news.set()

    async def listen(self) -> None:
        await asyncio.Event().wait()

    async def carried(self, count: int) -> list[tuple[str, int]]:
        async with asyncio.timeout(60):
            while len(self.sent) < count:
                self._news.clear()
                await self._news.wait()
        return self.sent

    @asynccontextmanager
    async def connect(self, hear: Hear) -> AsyncIterator[Line]:
        yield self


async def test_a_wake_up_lost_with_a_broken_link_is_sent_over_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups_module, "FIRST_S", 0.001)

    def breaks(tries: int) -> None:
        if tries == 1:
            raise ConnectionError("cut")

    line = Line(breaks)
    wakeups = LinkedWakeups(line.connect)
    await wakeups.open()
    await wakeups.linked()
    wakeups.notify_workers(3, pool="gpu")

    assert await line.carried(1) == [("gpu", 3)]
    await wakeups.close()


async def test_a_wake_up_during_the_sending_of_another_is_sent_too() -> None:
    """Whoever heard the first one may have looked for work already."""

    def rings(tries: int) -> None:
        if tries == 1:
            wakeups.notify_workers(2)

    line = Line(rings)
    wakeups = LinkedWakeups(line.connect)
    await wakeups.open()
    await wakeups.linked()
    wakeups.notify_workers()

    assert await line.carried(2) == [("default", 1), ("default", 2)]
    await wakeups.close()


class BrokenLine:
    """A link of which both ways break at the same moment, once."""

    def __init__(self) -> None:
        self.links = 0

    async def send(self, pool: str, times: int) -> None:
        await self._broken()

    async def listen(self) -> None:
        await self._broken()

    async def _broken(self) -> None:
        if self.links > 1:
            await asyncio.Event().wait()
        raise ConnectionError("cut")

    @asynccontextmanager
    async def connect(self, hear: Hear) -> AsyncIterator[BrokenLine]:
        self.links += 1
        yield self


async def test_a_link_broken_in_both_directions_is_logged_once_when_lost_and_once_when_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wakeups_module, "FIRST_S", 0.001)
    line = BrokenLine()
    wakeups = LinkedWakeups(line.connect)
    wakeups.notify_workers(pool="gpu")
    await wakeups.open()
    async with asyncio.timeout(60):
        while line.links < 2 or not wakeups.is_linked:
            await asyncio.sleep(0.001)

    assert [message.partition(":")[0] for message in caplog.messages] == [
        "wake-ups are not exchanged with other processes, which poll meanwhile",
        "wake-ups are exchanged with other processes again",
    ]
    await wakeups.close()
