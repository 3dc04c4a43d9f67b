"""Running a playbook in a test: in memory, in virtual time, with all events available afterwards.

Credentials of a test are in memory only; nothing is read from the user's own store. A value is a text or the
fields of a credential; its field `type` says which type it is (`bearer`, `postgres`, …), as `noetl credential set
--type` does.

A fake answers in the place of a tool: a value, a list of answers, an exception or a function. A function is called with
the rendered inputs of the task, and may be `async`. Of a list, each run takes one answer, and the last one stays. An
object that is a tool itself (with `run` and `close`) is used as it is.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.events.secret_materials import Material
from noetl.events.waits import HumanCreated
from noetl.language.checking import compiled
from noetl.net.net import KeychainEntry, Net
from noetl.operations.embedded import Driver, RunResult, driving, tools_here
from noetl.secrets.contract import Resolver, Resolvers, Sources
from noetl.secrets.credential_types import GENERIC, Fields, shaped
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.keychain import Keychain, open_sources
from noetl.secrets.vault import Vault
from noetl.store.inspection import derived_rows
from noetl.store.installation import MemoryCredentials
from noetl.store.open_store import MEMORY
from noetl.testing.virtual_time import LoopClock, run_virtually, working
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.http.calls import is_retryable
from noetl.tools.registry import Registry

_STATUS = re.compile(r"\b[45]\d\d\b")


class FakeCall(msgspec.Struct, frozen=True):
    """One run of a faked tool: which task of which step, and with what."""

    kind: str
    task: str
    inputs: dict[str, Any]


class FakeTool:
    def __init__(self, kind: str, fake: Any, calls: list[FakeCall], helpers: dict[str, dict[str, Any]]) -> None:
        self._kind, self._calls, self._helpers = kind, calls, helpers
        self._fake = fake
        self._answers = list(fake) if isinstance(fake, list) else [fake]

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self._calls.append(FakeCall(self._kind, context.task_run.task, dict(inputs)))
        # The last answer stays, so that a loop needs no answer for each iteration.
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(dict(inputs))
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise _as_the_tool_would(answer) if isinstance(answer, ToolError) else answer
        return answer if isinstance(answer, ToolResult) else ToolResult(result=answer)

    async def close(self) -> None:
        """Has nothing to release."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return self._helpers


def _as_the_tool_would(error: ToolError) -> ToolError:
    """The error as the real tool raises it: an `http.status` error always has a status. `ToolError("http.status",
    "503")` has it in its message. Rules read the status as `outcome.http.status`, and it decides whether a retry is
    worthwhile."""
    status = error.details.get("status") or next(iter(_STATUS.findall(error.message)), None)
    if error.kind != "http.status" or status is None:
        return error
    details = {"headers": {}, "data": None, **error.details, "status": int(str(status))}
    retryable = error.retryable or is_retryable(int(str(status)))
    return ToolError(error.kind, error.message, retryable=retryable, **details)


class RealTool:
    """A tool that does real work, in the loop's real time."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        with working():
            return await self._tool.run(inputs, context)

    async def close(self) -> None:
        with working():
            await self._tool.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return self._tool.helpers()

    def release(self, execution_id: str) -> None:
        if (release := getattr(self._tool, "release", None)) is not None:
            release(execution_id)


# These do no real work: they answer at once, or wait for others in virtual time.
_AT_ONCE = frozenset({"noop", "playbook"})


class TestTools(Registry):
    """The tools of a test: the fakes that it gives, and the real tools for all other kinds."""

    # Tells pytest not to collect this class, whose name begins with "Test".
    __test__ = False

    def __init__(self, fakes: Mapping[str, Any], real: Registry) -> None:
        self.calls: list[FakeCall] = []
        made: dict[str, Tool] = {kind: self._fake_tool(kind, fake, real) for kind, fake in fakes.items()}
        super().__init__(made, permissions=real.permissions)

    def _fake_tool(self, kind: str, fake: Any, real: Registry) -> Tool:
        is_tool = hasattr(fake, "run") and hasattr(fake, "close") and hasattr(fake, "helpers")
        tool: Tool = fake if is_tool else FakeTool(kind, fake, self.calls, real.helpers(kind))
        return tool

    def refusal(self, kind: str) -> str | None:
        return None if isinstance(self._paths.get(kind), FakeTool) else super().refusal(kind)

    def _make(self, kind: str) -> Tool:
        tool = super()._make(kind)
        return tool if kind in _AT_ONCE or not isinstance(self._paths.get(kind, ""), str) else RealTool(tool)


def given_keychain(given: Mapping[str, str | Fields], clock: Clock) -> Keychain:
    """A keychain that has these credentials and no others; variables and files are read as in an embedded run."""
    fields = {name: _typed_fields(value) for name, value in given.items()}
    sources = open_sources(_GivenVault(fields, clock), clock)
    return Keychain(sources, _GivenResolvers({name: value for name, (_, value) in fields.items()}))


def _typed_fields(value: str | Fields) -> tuple[str, Fields]:
    kind = str(value.get("type", GENERIC)) if isinstance(value, Mapping) else GENERIC
    return kind, shaped(kind, value)


class _GivenVault(Vault):
    """A vault that holds the credentials of a test in memory, so that a test needs no master key."""

    def __init__(self, given: Mapping[str, tuple[str, Fields]], clock: Clock) -> None:
        super().__init__(MemoryCredentials(), MasterKeys([]), clock)
        self._given = given

    async def fields(self, name: str, *, version: int | None = None) -> tuple[str, Fields] | None:
        return self._given.get(name)

    async def knows(self, name: str) -> bool:
        return name in self._given


class _GivenResolvers(Resolvers):
    """Resolvers that return the given value for a given name, whatever the kind: they request no token."""

    def __init__(self, given: Mapping[str, Fields]) -> None:
        super().__init__()
        self._given = given

    def resolver(self, entry: KeychainEntry) -> Resolver:
        return _Given(self._given[entry.name]) if entry.name in self._given else super().resolver(entry)


class _Given:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        return Material(fields=self._fields)


_LOOK_S = 3600.0


class Stuck(AssertionError):  # noqa: N818  it is a failed test, and reads as one
    """The playbook waits for something that does not come."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: its result, every event in order, and every call of a faked tool. `took_s` is in virtual time."""

    run: RunResult
    events: list[Event]
    calls: list[FakeCall]
    took_s: float

    @property
    def status(self) -> str:
        return self.run.status.value

    @property
    def ok(self) -> bool:
        return self.run.ok

    @property
    def result(self) -> Any:
        return self.run.result

    @property
    def error(self) -> dict[str, Any] | None:
        return self.run.error.readable() if self.run.error is not None else None

    @property
    def ctx(self) -> dict[str, Any]:
        return self.run.ctx

    def types(self) -> list[str]:
        return [event.event_type for event in self.events]

    def of(self, event_type: str) -> list[Event]:
        """The events of one type."""
        return [event for event in self.events if event.event_type == event_type]

    def snapshot(self) -> list[str]:
        """The type of each event with its step, without ids and times, for comparison."""
        return [f"{event.event_type} {event.step}" if event.step else event.event_type for event in self.events]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a run in a test: inputs, fakes by kind, credentials by name, messages as (name,
    correlation, payload), and what people fill into the forms of steps."""

    workload: Mapping[str, Any]
    tools: Mapping[str, Any]
    credentials: Mapping[str, str | dict[str, Any]]
    messages: Sequence[tuple[str, dict[str, Any], Any]]
    people: Mapping[str, Mapping[str, Any]]
    allow: Collection[str]
    within_s: float


def run_story(playbook: str | Path, story: Story) -> Ran:
    """Run a playbook to its end. Raises PlaybookError if it has errors, and Stuck if it has not ended in time."""
    return run_virtually(_run_story(compiled(playbook), story))


async def _run_story(net: Net, story: Story) -> Ran:
    tools = TestTools(story.tools, tools_here(story.allow))
    events: list[Event] = []
    filling: set[asyncio.Task[None]] = set()
    clock = LoopClock()

    def note_events(new: Sequence[Event]) -> None:
        events.extend(new)
        for event in new:
            if isinstance(event.payload, HumanCreated) and event.step is not None and event.step in story.people:
                values = dict(story.people[event.step])
                filling.add(asyncio.create_task(_fill_in(driver, event.payload, values)))

    begun = clock.now()
    keychain = given_keychain(story.credentials, clock)
    async with driving(MEMORY, tools=tools, clock=clock, watch=note_events, keychain=keychain) as driver:
        for name, correlation, payload in story.messages:
            await driver.deliveries.send_message(name, correlation, payload, ttl_s=story.within_s)
        execution_id = await driver.start(net, dict(story.workload))
        # Runs beside the playbook. Otherwise a playbook that waits for something that cannot come would end only after
        # `within_s`.
        looking = asyncio.create_task(_until_stuck(events))
        ending = asyncio.create_task(_run_result(driver, execution_id))
        await asyncio.wait({looking, ending}, timeout=story.within_s, return_when=asyncio.FIRST_COMPLETED)
        looking.cancel()
        if not ending.done():
            ending.cancel()
            raise Stuck(_not_ended_text(events, clock.now() - begun))
        result = ending.result()
        for one in filling:
            one.result() if one.done() else one.cancel()
    # The events of nested executions are left out: tests of nested playbooks run those playbooks.
    own = [event for event in events if event.execution_id == execution_id]
    return Ran(run=result, events=own, calls=tools.calls, took_s=round(clock.now() - begun, 3))


async def _run_result(driver: Driver, execution_id: str) -> RunResult:
    result = await driver.result(execution_id)
    # A nested execution that no step waits for may still run, and its calls of fakes belong to this test.
    await driver.drained()
    return result


async def _until_stuck(events: Sequence[Event]) -> None:
    """Return when the run can no longer change: no event for an hour, no running task and no timer."""
    seen = -1
    while len(events) != seen or not _is_idle(events):
        seen = len(events)
        await asyncio.sleep(_LOOK_S)


def _is_idle(events: Sequence[Event]) -> bool:
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.execution_id, []).append(event)
    rows = [derived_rows(stream) for stream in streams.values()]
    return all(one.execution.wake_at is None and not one.orders for one in rows)


async def _fill_in(driver: Driver, task: HumanCreated, values: dict[str, Any]) -> None:
    roles = [task.role] if task.role is not None else []
    await driver.inbox.complete(task.task_id, values, actor=task.user or "test", roles=roles)


def _not_ended_text(events: Sequence[Event], after_s: float) -> str:
    last = ", ".join(f"{event.event_type} {event.step or ''}".strip() for event in events[-3:])
    return f"the playbook has not ended after {after_s / 3600:,.0f} hours of its time; its last events: {last}"
