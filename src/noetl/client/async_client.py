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

from noetl.base.durations import retry_delay_s
from noetl.base.tls_trust import is_distrust, trusting
from noetl.client import api_request, requests
from noetl.client.async_calls import AsyncCalls
from noetl.events.envelope import Event
from noetl.operations import api_shapes
from noetl.operations.attempt_shapes import (
    AttemptInputs,
    AttemptPage,
    ExecutionComparison,
    RecordedInputs,
    StepTestInputs,
)

if TYPE_CHECKING:
    from noetl.language.checking import Checked

T = TypeVar("T")
# Failures in a row. A stream that delivers a message starts the count again.
_STREAM_TRIES = 10


class AsyncClient(AsyncCalls):
    """A client of one server. Close it, or use it as a context manager. ApiError if the server refuses a request,
    UnreachableError if it does not answer. `ca` is a PEM file with the CA of a private certificate."""

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
            headers=api_request.headers_for(token),
            timeout=api_request.TIMEOUT_S,
            transport=transport,
            verify=trusting(ca, self.url),
            # Ignore proxies of the environment: they are for the web, and must not see the token of this server.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: api_request.ApiRequest[T]) -> T:
        """Send a request, with retries where that is safe, and return its value."""
        tries = 0
        while True:
            tries += 1
            response: httpx2.Response | None = None
            failure: Exception | None = None
            try:
                response = await self._http.request(**api_request.arguments(request))
            except httpx2.TransportError as problem:
                failure = api_request.unreachable(self.url, problem)
                if is_distrust(problem):
                    # A retry would meet the same untrusted certificate.
                    raise failure from None
            if response is not None and not response.is_error:
                return request.read(response)
            pause_s = api_request.pause_before_next(request, tries, response)
            if pause_s is None:
                raise failure or api_request.error_of(response)  # type: ignore[arg-type]
            await sleep(pause_s)

    async def events(self, execution_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """The events of an execution in order. With `follow`, also future ones until it is over; a lost connection is
        resumed after the last received event."""
        if follow:
            async for event in self._followed(execution_id, after):
                yield event
            return
        while True:
            page = await self.event_page(execution_id, after=after)
            for fields in page.events:
                yield api_request.event_of(fields)
            if page.next is None:
                return
            after = page.next

    async def logs(
        self, execution_id: str, *, step: str | None = None, task: str | None = None
    ) -> AsyncIterator[api_shapes.LogLine]:
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
        # A stream without an `end` event was cut by a stopping server or a proxy. Open it again after the last received
        # event, so that no event is lost or repeated.
        failures = 0
        while True:
            try:
                async for message in self._messages(f"/api/executions/{execution_id}/stream", after):
                    # A message shows that the server is there: only failures in a row count.
                    failures = 0
                    if message.name == "end":
                        return
                    event = api_request.event_of(msgspec.json.decode(message.data))
                    after = event.seq
                    yield event
            except httpx2.TransportError as problem:
                failures += 1
                if failures > _STREAM_TRIES:
                    raise api_request.unreachable(self.url, problem) from problem
            await sleep(retry_delay_s(failures))

    async def _messages(self, path: str, after: int) -> AsyncIterator[api_request.StreamMessage]:
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        # A connection that died without a word is noticed by the missing comments.
        timeout = httpx2.Timeout(api_request.TIMEOUT_S, read=api_request.STREAM_SILENCE_S)
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.is_error:
                # The body of a stream is not read by itself, and it holds the reason.
                await response.aread()
                raise api_request.error_of(response)
            reader = api_request.Reader()
            async for line in response.aiter_lines():
                for message in reader.take(line):
                    yield message

    async def _over(self, execution_id: str, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        tries = 0
        while True:
            execution = await self.get(execution_id)
            if execution.is_over:
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # Poll quickly at first, since many executions take milliseconds; once a second for long ones.
            pause_s = min(1.0, 0.02 * 2**tries)
            await sleep(pause_s if left is None else min(pause_s, left))
            tries += 1

    # the catalogue

    async def register(self, source: str | Path | Checked, *, schedule: bool = True) -> api_shapes.PlaybookInfo:
        """Check a playbook (a file, a text, or a text that was checked already) and register it. ApiError with its
        diagnostics if it has errors. With `schedule` false, the schedule of its path does not change."""
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
    ) -> api_shapes.StartedExecution:
        """Begin an execution. `wait` waits for its end, without a limit or for a number of seconds. With `key`, a
        repeated call returns the execution of the first one; without it each call begins another."""
        # Wait by polling, not within the request: proxies end requests that take longer than a minute.
        started = await self.send(requests.start(path, payload or {}, version, 0.0, key))
        if wait is False:
            return started
        ended = await self.wait(started.execution_id, timeout=None if wait is True else float(wait))
        if ended is None:
            return started
        return msgspec.structs.replace(started, status=ended.status, result=ended.result, error=ended.error)

    async def run(
        self, path: str, payload: Mapping[str, Any] | None = None, *, version: str | int | None = None
    ) -> api_shapes.ResultView:
        """Begin an execution and wait for its result. A failed execution is a result, not an exception."""
        started = await self.start(path, payload, version=version)
        ended = await self.wait(started.execution_id)
        assert ended is not None, "without a timeout, `wait` returns only at the end"
        return ended

    async def wait(self, execution_id: str, *, timeout: float | None = None) -> api_shapes.ResultView | None:
        """Wait for the end of an execution and return its result; None if it is not over after `timeout` seconds."""
        if not await self._over(execution_id, timeout):
            return None
        return await self.result(execution_id)

    async def get(self, execution_id: str) -> api_shapes.ExecutionDetail:
        return await self.send(requests.execution(execution_id))

    async def list(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> api_shapes.ExecutionPage:
        """Executions, the newest first. `path` may contain `*`; `cursor` is the `next` of the previous page."""
        return await self.send(requests.executions(status, path, text, limit, cursor))

    async def result(self, execution_id: str, *, step: str | None = None) -> api_shapes.ResultView:
        """The result of an execution or of one of its steps. ApiError (409) while there is none."""
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
    ) -> api_shapes.EventPage:
        """Events after `after`, in order, with the fields of the API."""
        return await self.send(requests.events(execution_id, after, limit, types, step))

    async def log_page(
        self,
        execution_id: str,
        *,
        step: str | None = None,
        task: str | None = None,
        after: int = 0,
        limit: int = 500,
    ) -> api_shapes.LogPage:
        """What tasks printed past event `after`."""
        return await self.send(requests.logs(execution_id, step, task, after, limit))

    async def output(self, execution_id: str, *, after: str = "", step: str | None = None) -> api_shapes.LiveOutputPage:
        """The newest output of running tasks after a cursor; best effort."""
        return await self.send(requests.output(execution_id, after, step))

    async def pause(self, execution_id: str, reason: str | None = None) -> api_shapes.Steered:
        return await self.send(requests.steer(execution_id, "pause", reason))

    async def resume(self, execution_id: str, reason: str | None = None) -> api_shapes.Steered:
        return await self.send(requests.steer(execution_id, "resume", reason))

    async def cancel(
        self, execution_id: str, reason: str | None = None, *, compensate: bool = False
    ) -> api_shapes.Steered:
        """Cancel an execution. With `compensate`, the work of its steps is undone first, in reverse order."""
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
    ) -> api_shapes.StartedExecution:
        """Run an execution again, from the start or from a step, with another version or payload if given. With
        `approve` you approve again what people approved before that step for other inputs. With `failed_items` a loop
        runs only the items that are not done, and keeps the results of the others."""
        return await self.send(requests.rerun(execution_id, version, payload, from_step, approve, failed_items))

    async def explain(self, execution_id: str) -> dict[str, Any]:
        """Why an execution is in its state: its tokens, and what they wait for."""
        return await self.send(requests.explain(execution_id))

    async def attempts(
        self, execution_id: str, *, step: str | None = None, task: str | None = None, after: int = 0, limit: int = 200
    ) -> AttemptPage:
        """The attempts of its tasks, in the order in which they began; `next` is the `after` of the following page."""
        return await self.send(requests.attempts(execution_id, step, task, after, limit))

    async def attempt_inputs(self, execution_id: str, seq: int, *, against: str | None = None) -> AttemptInputs:
        """The inputs of an attempt, and how they differ from the attempt before it, or from the last attempt of the
        same task in the execution `against`. Secrets are shown as `***`."""
        return await self.send(requests.attempt_inputs(execution_id, seq, against))

    async def compare(self, execution_id: str, *, against: str | None = None) -> ExecutionComparison:
        """The differences to another execution, by default to the previous one of the same playbook: steps with states
        and durations, inputs, variables and results."""
        return await self.send(requests.compare(execution_id, against))

    async def cost(self, source: str, *, path: str | None = None) -> dict[str, Any]:
        """How long the steps of a text took in recent executions of a playbook, by default its own, and its critical
        path."""
        return await self.send(requests.cost(source, path))

    async def step_inputs(self, execution_id: str, step: str) -> RecordedInputs:
        """The values that a step read when it last ran in an execution, for a test of the step."""
        return await self.send(requests.step_inputs(execution_id, step))

    async def test_step(
        self, source: str, step: str, inputs: StepTestInputs | None = None, *, execution_id: str | None = None
    ) -> api_shapes.StartedExecution:
        """Begin an execution in which one step of a text runs alone; nothing is registered. With `execution_id`,
        results of other steps that `inputs` does not name are those of that execution."""
        return await self.send(requests.test_step(source, step, inputs or StepTestInputs(), execution_id))
