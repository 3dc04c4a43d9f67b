"""The client: requests with retries, streams that are taken up again, and waiting for executions.

The blocking client is generated from this module and `async_calls.py`: `make client`.
"""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx2
import msgspec

from noetl.base.tls_trust import is_distrust, trusting
from noetl.client import requests
from noetl.client.api_request import (
    STREAM_SILENCE_S,
    TIMEOUT_S,
    ApiRequest,
    Reader,
    StreamMessage,
    arguments,
    error_of,
    event_of,
    headers_for,
    pause_before_next,
    unreachable,
)
from noetl.client.async_calls import AsyncCalls
from noetl.events.envelope import Event
from noetl.operations.api_shapes import (
    EventPage,
    ExecutionDetail,
    ExecutionPage,
    LiveOutputPage,
    LogLine,
    LogPage,
    PlaybookInfo,
    ResultView,
    StartedExecution,
    Steered,
)
from noetl.operations.attempt_shapes import (
    AttemptInputs,
    AttemptPage,
    ExecutionComparison,
    RecordedInputs,
    StepTestInputs,
)
from noetl.worker.backoff import delay_s

if TYPE_CHECKING:
    from noetl.language.checking import Checked

T = TypeVar("T")
_STREAM_TRIES = 10


class AsyncClient(AsyncCalls):
    """Talks to one server. Close it, or use it as a context manager. ApiError when the server refuses,
    UnreachableError when it does not answer. `ca` is a PEM file: the authority of a server's private certificate."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca: str | Path | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            headers=headers_for(token),
            timeout=TIMEOUT_S,
            transport=transport,
            verify=trusting(ca, self.url),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: ApiRequest[T]) -> T:
        """Send it, again where that is safe, and give what the answer says."""
        tries = 0
        while True:
            tries += 1
            response: httpx2.Response | None = None
            failure: Exception | None = None
            try:
                response = await self._http.request(**arguments(request))
            except httpx2.TransportError as problem:
                failure = unreachable(self.url, problem)
                if is_distrust(problem):
                    raise failure from None  # it will not be another one in a moment
            if response is not None and not response.is_error:
                return request.read(response)
            pause_s = pause_before_next(request, tries, response)
            if pause_s is None:
                raise failure or error_of(response)  # type: ignore[arg-type]
            await sleep(pause_s)

    async def events(self, execution_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """The events of an execution in order. With `follow`, those to come too, until it is over: a connection that
        is lost is taken up again where it was."""
        if follow:
            async for event in self._followed(execution_id, after):
                yield event
            return
        while True:
            page = await self.event_page(execution_id, after=after)
            for told in page.events:
                yield event_of(told)
            if page.next is None:
                return
            after = page.next

    async def logs(
        self, execution_id: str, *, step: str | None = None, task: str | None = None
    ) -> AsyncIterator[LogLine]:
        """What the tasks of an execution printed."""
        after = 0
        while True:
            page = await self.log_page(execution_id, step=step, task=task, after=after)
            for line in page.lines:
                yield line
            if page.next is None:
                return
            after = page.next

    async def _followed(self, execution_id: str, after: int) -> AsyncIterator[Event]:
        # A stream ends without `end` when a server stops or a proxy cuts it. It is opened again after the last event
        # that arrived, so that none is lost and none comes twice.
        failures = 0
        while True:
            try:
                async for message in self._messages(f"/api/executions/{execution_id}/stream", after):
                    failures = 0
                    if message.name == "end":
                        return
                    event = event_of(msgspec.json.decode(message.data))
                    after = event.seq
                    yield event
            except httpx2.TransportError as problem:
                failures += 1
                if failures > _STREAM_TRIES:
                    raise unreachable(self.url, problem) from problem
            await sleep(delay_s(failures))

    async def _messages(self, path: str, after: int) -> AsyncIterator[StreamMessage]:
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        timeout = httpx2.Timeout(TIMEOUT_S, read=STREAM_SILENCE_S)
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.is_error:
                await response.aread()
                raise error_of(response)
            reader = Reader()
            async for line in response.aiter_lines():
                for message in reader.take(line):
                    yield message

    async def _over(self, execution_id: str, timeout: float | None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        tries = 0
        while True:
            execution = await self.get(execution_id)
            if execution.is_over:
                return True
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            pause_s = min(1.0, 0.02 * 2**tries)
            await sleep(pause_s if left is None else min(pause_s, left))
            tries += 1

    # the catalogue

    async def register(self, source: str | Path | Checked, *, schedule: bool = True) -> PlaybookInfo:
        """Check a playbook, given as a file, as its text or as a text that was checked here, and put it into the
        catalogue. ApiError with its diagnostics when it has errors. Without `schedule` the schedule of its path is left
        as it is."""
        if isinstance(source, Path):
            text = source.read_text("utf-8")
        else:
            text = source if isinstance(source, str) else source.source.text
        return await self.send(requests.register(text, schedule=schedule))

    # executions

    async def start(
        self,
        path: str,
        payload: Mapping[str, Any] | None = None,
        *,
        version: str | int | None = None,
        wait: bool | float = False,
        key: str | None = None,
    ) -> StartedExecution:
        """Begin an execution. With `wait` its end is awaited: for ever, or for so many seconds. `key` makes a repeated
        call find the first one's execution; without it each call begins another."""
        started = await self.send(requests.start(path, payload or {}, version, 0.0, key))
        if wait is False:
            return started
        ended = await self.wait(started.execution_id, timeout=None if wait is True else float(wait))
        if ended is None:
            return started
        return msgspec.structs.replace(started, status=ended.status, result=ended.result, error=ended.error)

    async def run(
        self, path: str, payload: Mapping[str, Any] | None = None, *, version: str | int | None = None
    ) -> ResultView:
        """Begin an execution and wait for what it gives. One that fails is a result, not an exception."""
        started = await self.start(path, payload, version=version)
        ended = await self.wait(started.execution_id)
        assert ended is not None, "without a timeout it is waited for to the end"
        return ended

    async def wait(self, execution_id: str, *, timeout: float | None = None) -> ResultView | None:
        """What an execution gave, once it is over; None when it is not after `timeout` seconds."""
        if not await self._over(execution_id, timeout):
            return None
        return await self.result(execution_id)

    async def get(self, execution_id: str) -> ExecutionDetail:
        return await self.send(requests.execution(execution_id))

    async def list(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ExecutionPage:
        """Executions, the newest first. `path` may hold `*`; `cursor` is the `next` of the page before."""
        return await self.send(requests.executions(status, path, text, limit, cursor))

    async def result(self, execution_id: str, *, step: str | None = None) -> ResultView:
        """What an execution gave, or one of its steps. ApiError (409) while there is nothing."""
        return await self.send(requests.result(execution_id, step))

    async def ctx(self, execution_id: str) -> dict[str, Any]:
        return await self.send(requests.ctx(execution_id))

    async def event_page(
        self,
        execution_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        types: tuple[str, ...] = (),
        step: str | None = None,
    ) -> EventPage:
        """Events past `after`, in order, as the API tells them."""
        return await self.send(requests.events(execution_id, after, limit, types, step))

    async def log_page(
        self,
        execution_id: str,
        *,
        step: str | None = None,
        task: str | None = None,
        after: int = 0,
        limit: int = 500,
    ) -> LogPage:
        """What tasks printed past event `after`."""
        return await self.send(requests.logs(execution_id, step, task, after, limit))

    async def output(self, execution_id: str, *, after: str = "", step: str | None = None) -> LiveOutputPage:
        """What tasks that run have printed past a cursor: best effort, the newest lines of each."""
        return await self.send(requests.output(execution_id, after, step))

    async def pause(self, execution_id: str, reason: str | None = None) -> Steered:
        return await self.send(requests.steer(execution_id, "pause", reason))

    async def resume(self, execution_id: str, reason: str | None = None) -> Steered:
        return await self.send(requests.steer(execution_id, "resume", reason))

    async def cancel(self, execution_id: str, reason: str | None = None, *, compensate: bool = False) -> Steered:
        """With `compensate` what its steps have done is undone first, in reverse."""
        return await self.send(requests.steer(execution_id, "compensate" if compensate else "cancel", reason))

    async def rerun(
        self,
        execution_id: str,
        *,
        version: str | int | None = None,
        payload: Mapping[str, Any] | None = None,
        from_step: str | None = None,
        approve: bool = False,
        failed_items: bool = False,
    ) -> StartedExecution:
        """The same once more, with another version or payload where one is given, from the start or from a step. With
        `approve` you approve anew what people had approved before that step for other inputs. With `failed_items` a
        loop runs the items alone that were not done, and keeps the results of the others."""
        return await self.send(requests.rerun(execution_id, version, payload, from_step, approve, failed_items))

    async def explain(self, execution_id: str) -> dict[str, Any]:
        """Why it is where it is."""
        return await self.send(requests.explain(execution_id))

    async def attempts(
        self, execution_id: str, *, step: str | None = None, task: str | None = None, after: int = 0, limit: int = 200
    ) -> AttemptPage:
        """Its attempts of tasks, in the order in which they began; `next` is the `after` of the page that follows."""
        return await self.send(requests.attempts(execution_id, step, task, after, limit))

    async def attempt_inputs(self, execution_id: str, seq: int, *, against: str | None = None) -> AttemptInputs:
        """What an attempt was given, and what differs from the attempt before it, or from the last one of the same task
        in the execution `against`. Secrets are shown as `***`."""
        return await self.send(requests.attempt_inputs(execution_id, seq, against))

    async def compare(self, execution_id: str, *, against: str | None = None) -> ExecutionComparison:
        """What differs from another execution, or without one from the execution of the same playbook before it: steps
        with their states and durations, inputs, variables and results."""
        return await self.send(requests.compare(execution_id, against))

    async def step_inputs(self, execution_id: str, step: str) -> RecordedInputs:
        """What a step read when it last ran in an execution, for a test of it."""
        return await self.send(requests.step_inputs(execution_id, step))

    async def test_step(
        self, source: str, step: str, inputs: StepTestInputs | None = None, *, execution_id: str | None = None
    ) -> StartedExecution:
        """Begin an execution in which one step of a text runs alone; nothing is registered. With `execution_id`,
        results of other steps that `inputs` does not name are those of that execution."""
        return await self.send(requests.test_step(source, step, inputs or StepTestInputs(), execution_id))
