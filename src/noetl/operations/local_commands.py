"""Commands to executions of a local store that this process does not drive (SRV-07, SRV-11).

The process that drives an execution receives the command through the store. If no process drives it, the command is
decided here. If a driver exists after all, both commit to the same log, and the store accepts only one of the two.
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
from noetl.control.outside import requests
from noetl.control.outside.human_tasks import RequestResult, request_result
from noetl.events.orders import ReportResult
from noetl.store.contract import ExecutionRow, ResultStore, Store
from noetl.store.waits import RequestRow
from noetl.store.wakeups import MemoryWakeups

# A driving process looks for requests every half second, so 5 s allow for a busy machine.
ANSWER_TIMEOUT_S = 5.0
# A person waits at a terminal for the answer, so it is polled often.
_POLL_S = 0.05


class LocalCommands:
    def __init__(self, store: Store, results: ResultStore, clock: Clock) -> None:
        self._store, self._results, self._clock = store, results, clock

    async def submit(self, execution_id: str, command: requests.DriverCommand) -> RequestResult:
        [result] = await self.submit_all([(execution_id, command)])
        return result

    async def submit_all(self, commands: Sequence[tuple[str, requests.DriverCommand]]) -> list[RequestResult]:
        """Submit all commands and return their results in the same order. All are sent before any answer is awaited."""
        if not await is_anybody_there(self._store.key_values, now=self._clock.now()):
            return [request_result(await self._executions().submit(*command)) for command in commands]
        # Send all first, then wait: each driver polls every half second, so waiting in turn would add up.
        request_ids = [
            await self._store.requests.ask(
                execution_id,
                requests.action_of(command),
                reason=requests.encoded_command(command),
                at=self._clock.now(),
            )
            for execution_id, command in commands
        ]
        # Some process is alive, but perhaps it drives other executions. Commands without an answer are decided here
        # after the timeout.
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        results: list[RequestResult] = []
        for request_id, (execution_id, command) in zip(request_ids, commands, strict=True):
            request = await self._wait_for_answer(request_id, deadline)
            if request is not None and request.answer is not None:
                results.append(requests.decoded_result(request.answer))
                continue
            result = request_result(await self._executions().submit(execution_id, command))
            # Answer the request even though it was decided here: a late driver then does not run it again.
            await self._store.requests.answer(request_id, requests.encoded_result(result), at=self._clock.now())
            results.append(result)
        return results

    async def control(
        self, row: ExecutionRow, action: str, reason: str | None, *, actor: str | None = None
    ) -> ReportResult:
        """Pause, resume, cancel or compensate. SettledError for an execution that is over."""
        if row.finished_at is not None:
            raise SettledError(f"execution {row.execution_id} has ended: it is {row.status}")
        # Store the request before looking for a driver: one that starts in between finds it.
        body = requests.control_body(reason, actor)
        request_id = await self._store.requests.ask(row.execution_id, action, reason=body, at=self._clock.now())
        if not await is_abandoned(self._store, row) and await self._is_driven(row):
            request = await self._wait_for_answer(request_id, time.monotonic() + ANSWER_TIMEOUT_S)
            if request is not None and request.answer is not None:
                return ReportResult(request.answer)
        executions = self._executions()
        # Load it with its children: a pause or cancellation applies to them too.
        await executions.take_up(row.execution_id, is_gone=lambda _: True)
        command = requests.command_for(action, at=self._clock.now(), reason=reason, actor=actor)
        verdict = await executions.control(row.execution_id, command)
        await self._store.requests.answer(request_id, verdict.value, at=self._clock.now())
        return verdict

    async def _is_driven(self, row: ExecutionRow) -> bool:
        """Whether some process may drive the execution. False if it only waits and no process is alive."""
        # An open order belongs to some process, even to one that has not registered its presence.
        return bool(await self._store.orders(row.execution_id)) or await is_anybody_there(
            self._store.key_values, now=self._clock.now()
        )

    async def _wait_for_answer(self, request_id: int, deadline: float) -> RequestRow | None:
        """The request with its answer; None if there is none before the deadline."""
        while True:
            request = await self._store.requests.get(request_id)
            if request is not None and request.answer is not None:
                return request
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(_POLL_S)

    def _executions(self) -> Executions:
        # A control plane for one command. Its background jobs are not started; only the commit is needed.
        return assemble(self._store, self._results, MemoryWakeups(), self._clock).executions
