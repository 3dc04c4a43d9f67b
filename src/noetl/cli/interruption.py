"""Interruption: the first Ctrl-C (or SIGTERM) lets a run record what it has and end; the second stops it at once.

Stopping at once loses nothing that was recorded: the store commits whole decisions, and a resumed run goes on from the
last of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Given = TypeVar("Given")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818  it is the user's wish, not an error
    """The run was stopped before its end, and what it had done is recorded."""


def run_interruptibly(
    running: Coroutine[Any, Any, Given], *, at_first: Callable[[], None], at_second: Callable[[], None], code: int
) -> Given:
    """What the coroutine gives. `at_first` is called on the first signal, `at_second` before the second ends the
    process with `code`.

    Interrupted when there was a signal and the coroutine has come to rest.
    """

    async def guarded() -> Given:
        task = asyncio.current_task()
        assert task is not None
        heard = 0

        def on_signal() -> None:
            nonlocal heard
            heard += 1
            if heard > 1:
                try:
                    at_second()
                finally:
                    # At once, without cleaning up: the second Ctrl-C means that cleaning up hangs. Nothing recorded is
                    # lost by it.
                    os._exit(code)
            at_first()
            task.cancel()

        with _hearing(on_signal):
            try:
                return await running
            except asyncio.CancelledError:
                if heard:
                    raise Interrupted from None
                raise

    return asyncio.run(guarded())


@contextmanager
def _hearing(hear: Callable[[], None]) -> Iterator[None]:
    """Signals reach `hear` meanwhile; where the loop cannot have them, Python's own Ctrl-C stays."""
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, ValueError, RuntimeError):
        for number in _SIGNALS:
            loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        with suppress(NotImplementedError, ValueError, RuntimeError):
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
