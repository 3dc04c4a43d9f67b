"""Commands to executions of a store that this process does not drive: whoever drives them is asked through the store;
when nobody does, they are decided here (SRV-07, SRV-11).

Should there be a driver after all, the log decides between the two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from noetl.base.clock import Clock
from noetl.base.errors import SettledError
from noetl.control.assembly import assemble
from noetl.control.background.presence import is_abandoned, is_anybody_there
from noetl.control.executions import Executions
from noetl.control.outside.human_tasks import RequestResult, request_result
from noetl.control.outside.requests import (
    DriverCommand,
    action_of,
    command_for,
    decoded_result,
    encoded_command,
    encoded_result,
)
from noetl.events.orders import ReportResult
from noetl.store.contract import ExecutionRow, ResultStore, Store
from noetl.store.requests import RequestRow
from noetl.store.wakeups.contract import MemoryWakeups

PATIENCE_S = 5.0  # a running process looks for requests every half second
# A person waits at a terminal for the answer of the process that drives the execution; that one looks every half
# second.
_POLL_S = 0.05


class LocalCommands:
    def __init__(self, store: Store, results: ResultStore, clock: Clock) -> None:
        self._store, self._results, self._clock = store, results, clock

    async def submit(self, execution_id: str, command: DriverCommand) -> RequestResult:
        [told] = await self.submit_all([(execution_id, command)])
        return told

    async def submit_all(self, commands: Sequence[tuple[str, DriverCommand]]) -> list[RequestResult]:
        """Each execution is told what is for it. All are asked before anybody is waited for."""
        if not await is_anybody_there(self._store.key_values, now=self._clock.now()):
            return [request_result(await self._executions().submit(*one)) for one in commands]
        # Ask first, then wait: each driver looks every half second, so waiting in turn would add up.
        asked = [
            await self._store.requests.ask(
                execution_id, action_of(command), reason=encoded_command(command), at=self._clock.now()
            )
            for execution_id, command in commands
        ]
        # Somebody is there, but maybe not the driver of these executions: nobody answers for those, and they are
        # decided here after a while.
        until = time.monotonic() + PATIENCE_S
        found: list[RequestResult] = []
        for request_id, (execution_id, command) in zip(asked, commands, strict=True):
            request = await self._answered(request_id, until)
            if request is not None and request.answer is not None:
                found.append(decoded_result(request.answer))
                continue
            # Whoever is there has other things to do.
            told = request_result(await self._executions().submit(execution_id, command))
            # Answered also where it was decided here: a driver that comes late finds it settled, and does not do it
            # again.
            await self._store.requests.answer(request_id, encoded_result(told), at=self._clock.now())
            found.append(told)
        return found

    async def steer(self, row: ExecutionRow, action: str, reason: str | None) -> ReportResult:
        """Pause, resume, cancel or compensate. SettledError for an execution that is over."""
        if row.finished_at is not None:
            raise SettledError(f"execution {row.execution_id} has ended: it is {row.status}")
        # Stored before looking for a driver: one that starts in between finds the request.
        request_id = await self._store.requests.ask(row.execution_id, action, reason=reason, at=self._clock.now())
        if not await is_abandoned(self._store, row) and await self._is_driven(row):
            request = await self._answered(request_id, time.monotonic() + PATIENCE_S)
            if request is not None and request.answer is not None:
                return ReportResult(request.answer)
        executions = self._executions()
        # With its children, so that they hear of it too.
        await executions.take_up(row.execution_id, is_gone=lambda _: True)
        command = command_for(action, at=self._clock.now(), reason=reason)
        verdict = await executions.control(row.execution_id, command)
        await self._store.requests.answer(request_id, verdict.value, at=self._clock.now())
        return verdict

    async def _is_driven(self, row: ExecutionRow) -> bool:
        """False when it only waits, and nobody waits with it."""
        return bool(await self._store.orders(row.execution_id)) or await is_anybody_there(
            self._store.key_values, now=self._clock.now()
        )

    async def _answered(self, request_id: int, until: float) -> RequestRow | None:
        """The request once it is answered; None when that takes too long."""
        while True:
            request = await self._store.requests.get(request_id)
            if request is not None and request.answer is not None:
                return request
            if time.monotonic() >= until:
                return None
            await asyncio.sleep(_POLL_S)

    def _executions(self) -> Executions:
        return assemble(self._store, self._results, MemoryWakeups(), self._clock).executions
