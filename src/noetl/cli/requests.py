"""Telling executions something from another terminal: who runs them is asked to; when nobody does, it is done here.

The store must be there: these commands act on what has been run, and make no new file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from noetl.cli.queries import LOOKED_FOR, QueryRefused, is_there, place_of, refusals

if TYPE_CHECKING:
    from noetl.control.outside.report_results import RequestResult
    from noetl.control.outside.requests_to_driver import Telling
    from noetl.store.contract import Store

PATIENCE_S = 5.0  # a running process looks for requests every half second
_POLL_S = 0.05
Found = TypeVar("Found")


def using(db: str | None, use: Callable[[Store], Awaitable[Found]]) -> Found:
    """What `use` gives for the store; what is refused ends the command with 4."""
    from noetl.store.open_store import open_store

    async def used() -> Found:
        if not is_there(db):
            raise QueryRefused(f"there is no store {place_of(db)}{LOOKED_FOR}")
        store, _ = await open_store(db, reading_will_do=True)
        try:
            return await use(store)
        finally:
            await store.close()

    with refusals():
        return asyncio.run(used())


async def send_command(store: Store, db: str | None, execution_id: str, command: Telling) -> RequestResult:
    """Have one execution told; what became of it."""
    [told] = await tell_each(store, db, [(execution_id, command)])
    return told


async def tell_each(store: Store, db: str | None, commands: Sequence[tuple[str, Telling]]) -> list[RequestResult]:
    """Have executions told, each what is for it. All are asked before anybody is waited for."""
    from noetl.control.background.presence import is_anybody_there
    from noetl.control.outside.requests_to_driver import action_of, answer, encoded_command
    from noetl.worker.identity import is_gone

    if not await is_anybody_there(store.key_values, is_gone, now=time.time()):
        return [await _decided_here(store, db, *one) for one in commands]
    asked = [
        await store.requests.ask(execution_id, action_of(command), reason=encoded_command(command), at=time.time())
        for execution_id, command in commands
    ]
    until = time.monotonic() + PATIENCE_S
    found: list[RequestResult] = []
    for request_id, (execution_id, command) in zip(asked, commands, strict=True):
        told = await _wait_for_answer(store, request_id, until)
        if told is None:  # whoever is there has other things to do
            told = await _decided_here(store, db, execution_id, command)
            await store.requests.answer(request_id, answer(told), at=time.time())
        found.append(told)
    return found


async def _wait_for_answer(store: Store, request_id: int, until: float) -> RequestResult | None:
    from noetl.control.outside.requests_to_driver import decoded_result

    while True:
        request = await store.requests.get(request_id)
        if request is not None and request.answer is not None:
            return decoded_result(request.answer)
        if time.monotonic() >= until:
            return None
        await asyncio.sleep(_POLL_S)


async def _decided_here(store: Store, db: str | None, execution_id: str, command: Telling) -> RequestResult:
    """As its own process would have done; should there be one after all, the log decides between the two."""
    from noetl.base.clock import SystemClock
    from noetl.control.executions import Executions
    from noetl.control.outside.report_results import request_result
    from noetl.store.open_store import open_results
    from noetl.store.wakeups.memory import MemoryWakeups

    results = open_results(db)
    try:
        executions = Executions(store, results, MemoryWakeups(), SystemClock())
        return request_result(await executions.submit_command(execution_id, command))
    finally:
        results.close()
