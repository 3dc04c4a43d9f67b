"""Timeouts that begin to run out only when something is there: how quickly a machine comes that far is no matter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest


def no_time_passes_until(there: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """For every event loop of the test, until something is true for the first time."""
    real = asyncio.BaseEventLoop.time
    began: dict[int, float] = {}
    stood: dict[int, float] = {}

    def time(loop: asyncio.BaseEventLoop) -> float:
        now, which = real(loop), id(loop)
        if which not in stood and there():
            stood[which] = now - began.get(which, now)
        return now - stood[which] if which in stood else began.setdefault(which, now)

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", time)
