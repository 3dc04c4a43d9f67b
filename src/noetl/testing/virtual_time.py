"""Virtual time: an event loop that does not wait. When no task runs, it moves its clock to the next timer (TMR-07).

Delays, timeouts and timers so happen in their order, and months of them pass in no time. While a real tool is at work
its time counts as it passes, so that its timeouts hold.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

START = 1_735_689_600.0  # 2025-01-01T00:00:00Z
Given = TypeVar("Given")


class _Selector(selectors.DefaultSelector):
    """A selector that asks the loop what to do instead of waiting for a timer."""

    wait: Callable[[float, Callable[[float], Any]], Any]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        # Ready callbacks run first: time advances only if there are none.
        return super().select(0) or self.wait(timeout, super().select)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`counts_work`: the time that real work takes passes in the loop too, so that its timeouts apply. Otherwise
    virtual time stands still during real work, and nothing depends on the speed of the machine."""

    def __init__(self, *, counts_work: bool = True) -> None:
        self._now, self._busy, self._counts_work = 0.0, 0, counts_work
        selector = _Selector()
        selector.wait = self._wait
        super().__init__(selector)

    def time(self) -> float:
        return self._now

    def _wait(self, seconds: float, select: Callable[[float], Any]) -> Any:
        if not self._busy:
            # No real work is in progress, so nothing can happen before the next timer: the clock jumps to it.
            self._now += seconds
            return []
        begun = time.monotonic()
        try:
            return select(seconds)
        finally:
            # Counted as it passed, which may be less than requested: a tool that ends early wakes the loop.
            self._now += time.monotonic() - begun if self._counts_work else 0.0

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Shut down without the time limit that Runner sets from Python 3.12 on: threads end in real time, and the
        limit would pass at once in virtual time."""
        with self.working():
            await super().shutdown_default_executor()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Real work is in progress."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1


class LoopClock:
    """The clock of the system, moved by the loop; it begins with the year 2025."""

    def __init__(self, start: float = START) -> None:
        self._loop, self._start = asyncio.get_running_loop(), start

    def now(self) -> float:
        return self._start + self._loop.time()


def working() -> Any:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "real work in virtual time is done in its own loop"
    return loop.working()


def run_virtually(coroutine: Coroutine[Any, Any, Given], *, counts_work: bool = True) -> Given:
    """`asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, counts_work=counts_work)) as runner:
        return runner.run(coroutine)
