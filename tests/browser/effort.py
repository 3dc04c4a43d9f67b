"""What a page costs: the processor's time of each task of its main thread, whoever else has the machine meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page

_TASK, _THREAD = "ThreadControllerImpl::RunTask", "CrRendererMain"
_TIMES = 4


def longest_ms(page: Page, work: Callable[[], None], *, enough_ms: float) -> float:
    """The longest task of this work, where it was done at its best: who shares the machine, and a heap that is swept
    just then, make the same work longer now and then, and never shorter. Done again only where it was not quick
    enough."""
    found: list[float] = []
    while len(found) < _TIMES and min(found, default=float("inf")) > enough_ms:
        with effort(page) as tasks:
            work()
        found.append(max(tasks))
    return min(found)


@contextmanager
def effort(page: Page) -> Iterator[list[float]]:
    """The milliseconds of the tasks that ran in the block, there once it is left."""
    browser = page.context.browser
    assert browser is not None
    spent: list[float] = []
    browser.start_tracing(page=page, categories=["toplevel"])
    try:
        yield spent
        page.wait_for_timeout(60)  # for the frame that is drawn last
    finally:
        events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    named = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    spent += [
        one["tdur"] / 1000
        for one in events
        if one.get("name") == _TASK and named.get((one["pid"], one["tid"])) == _THREAD and "tdur" in one
    ]
    assert spent, "nothing was measured"
