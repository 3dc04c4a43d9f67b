"""Inputs of attempts: the rendered inputs of each attempt of a task, and how they differ from another's (POL-05).

Inputs are not stored. They are rendered again from the log (`control/views/begun_attempts.py`). Where that is not
possible the answer says why: a stored value was deleted, or a tool kind is not installed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import AbsentError, NotFoundError, TemplateError, ToolError
from noetl.base.redaction import MASK, Mask
from noetl.control.views.begun_attempts import begun_attempt
from noetl.engine.plan import Plan
from noetl.events.envelope import Event, with_stored_values
from noetl.events.large_values import Load
from noetl.events.outcomes import Status
from noetl.events.secret_materials import Material, secrets_in
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.net.net import Net, from_json
from noetl.net.secret_reads import auths_in
from noetl.operations.attempt_shapes import AttemptInputs, AttemptPage, AttemptView
from noetl.operations.comparisons import abridged_value, differences
from noetl.store.contract import EventFilter, ExecutionRow, History, Results, Store
from noetl.templates.sql.statements import Bound
from noetl.tools.registry import Registry

_PAGE = 1_000
# Events read for one page of attempts. A loop of a million items must not make one request read its whole log.
_MOST_SEEN = 20_000
_TYPES = (TaskStarted.event_type, TaskProcessed.event_type)
_SECRETS = "Secrets are shown as ***, so a changed secret does not appear as a difference."
_AS_STARTED = "now() is rendered as the time at which the attempt began."

Value = TypeVar("Value")


class AttemptSources(Protocol):
    """Where attempts are read from: a server's store, or one on this machine."""

    history: History
    tools: Registry

    async def net(self, net_hash: str) -> Net: ...

    async def mask(self, execution_id: str) -> Mask:
        """The secrets that the execution has read."""

    async def whole_events(self, row: ExecutionRow, events: list[Event]) -> list[Event]:
        """The events with their large values, which are stored apart."""

    async def read(self, compute: Callable[[Load], Value]) -> Value:
        """The result of `compute`, which runs outside the event loop (replaying a log takes time) with the stored
        values that it loads."""


class LocalSources:
    """A store on this machine. It does not know which secrets an execution has read; its log is masked already."""

    def __init__(self, store: Store, results: Results) -> None:
        self.history: History = store
        self.tools = Registry()
        self._store, self._results = store, results

    async def net(self, net_hash: str) -> Net:
        return from_json(await self._store.net(net_hash))

    async def mask(self, execution_id: str) -> Mask:
        return Mask()

    async def whole_events(self, row: ExecutionRow, events: list[Event]) -> list[Event]:
        return [with_stored_values(event, self._results.load) for event in events]

    async def read(self, compute: Callable[[Load], Value]) -> Value:
        return compute(self._results.load)


async def attempt_page(
    history: History,
    execution_id: str,
    *,
    step: str | None = None,
    task: str | None = None,
    path: tuple[int, ...] | None = None,
    after: int = 0,
    limit: int = 200,
) -> AttemptPage:
    """The attempts of a step's tasks, or of all tasks. An attempt whose end lies beyond the events that were read is
    reported as running."""
    attempts: dict[tuple[str, str], AttemptView] = {}
    beyond, read_count, selection = None, 0, EventFilter(types=_TYPES, step=step, limit=_PAGE)
    while read_count < _MOST_SEEN and (events := await history.events(execution_id, after=after, only=selection)):
        read_count, after = read_count + len(events), events[-1].seq
        for event in events:
            match event.payload:
                case TaskStarted() as started if beyond is None and _matches(started, task, path):
                    # The page is full. Ends of its attempts may still follow, so reading goes on until each has one.
                    if len(attempts) == limit:
                        beyond = max(attempt.seq for attempt in attempts.values())
                        continue
                    attempts[started.task_run_id, started.task] = attempt_view(event)
                case TaskProcessed(task_run_id=run_id, task=name, outcome=outcome) if (run_id, name) in attempts:
                    attempt = attempts[run_id, name]
                    attempts[run_id, name] = msgspec.structs.replace(attempt, status=_status(outcome.status))
        if len(events) < _PAGE or (
            beyond is not None and all(attempt.status != "running" for attempt in attempts.values())
        ):
            break
    # The loop ended without a break: the log is at its end, or the bound was reached and more attempts may follow.
    else:
        beyond = beyond if beyond is not None or read_count < _MOST_SEEN else after
    return AttemptPage(attempts=list(attempts.values()), next=beyond)


def _matches(started: TaskStarted, task: str | None, path: tuple[int, ...] | None) -> bool:
    return task in (None, started.task) and path in (None, started.path)


def _status(status: Status) -> str:
    return "success" if status is Status.SUCCESS else "error"


def attempt_view(event: Event) -> AttemptView:
    started = event.payload
    assert isinstance(started, TaskStarted)
    return AttemptView(
        seq=event.seq,
        ts=rfc3339(event.ts),
        step=event.step or "",
        task=started.task,
        kind=started.kind,
        path=list(started.path),
        visit=started.visit,
        attempt=started.attempt,
        task_run_id=started.task_run_id,
    )


class _RenderedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its inputs, or the reason why they are unknown."""

    event: Event
    inputs: dict[str, Any] | None = None
    spec: dict[str, Any] = {}
    unknown: str | None = None
    is_masked: bool = False
    reads_time: bool = False

    @property
    def view(self) -> AttemptView:
        return attempt_view(self.event)


async def attempt_inputs(
    sources: AttemptSources,
    row: ExecutionRow,
    seq: int,
    *,
    against: ExecutionRow | None = None,
) -> AttemptInputs:
    """The inputs of the attempt that began with event `seq`, compared with the attempt before it, or with the last
    attempt of the same task in the execution `against`. NotFoundError if event `seq` began no attempt."""
    # Read the log up to the attempt and no further: inputs depend on the state at that moment.
    events = await sources.history.events(row.execution_id, only=EventFilter(limit=seq))
    if not events or events[-1].seq != seq or not isinstance(events[-1].payload, TaskStarted):
        raise NotFoundError(f"no attempt of execution {row.execution_id} began with event {seq}")
    current = await _render_attempt(sources, row, events)
    earlier = await _earlier_log(sources, events, against)
    before = await _render_attempt(sources, against or row, earlier) if earlier else None
    known = before is not None and before.inputs is not None and current.inputs is not None
    return AttemptInputs(
        execution_id=row.execution_id,
        attempt=current.view,
        inputs=current.inputs,
        spec=current.spec,
        unknown=current.unknown,
        notes=list(_notes(current, before)),
        before=before.view if before is not None else None,
        before_execution_id=(against or row).execution_id if before is not None else None,
        differences=differences(before.inputs, current.inputs) if known and before is not None else None,
    )


async def _earlier_log(sources: AttemptSources, events: list[Event], against: ExecutionRow | None) -> list[Event]:
    """The log up to the attempt to compare with; empty if there is no such attempt."""
    last = events[-1]
    if against is None:
        at = next((at for at in range(len(events) - 2, -1, -1) if _is_same_task(events[at], last)), None)
        return events[: at + 1] if at is not None else []
    selection = EventFilter(types=(TaskStarted.event_type,), step=last.step, limit=_PAGE, newest=True)
    newest = await sources.history.events(against.execution_id, only=selection)
    same = next((event for event in reversed(newest) if _is_same_task(event, last)), None)
    if same is None:
        return []
    return await sources.history.events(against.execution_id, only=EventFilter(limit=same.seq))


def _is_same_task(first: Event, second: Event) -> bool:
    """Whether both are attempts of the same task, in the same iteration."""
    a, b = first.payload, second.payload
    if not isinstance(a, TaskStarted) or not isinstance(b, TaskStarted):
        return False
    return first.step == second.step and a.task == b.task and a.path == b.path


async def _render_attempt(sources: AttemptSources, row: ExecutionRow, events: list[Event]) -> _RenderedInputs:
    net, mask = await sources.net(row.net_hash), Mask()
    execution_mask = await sources.mask(row.execution_id)

    def rendered_inputs(load: Load) -> _RenderedInputs:
        plan = Plan(net, load=load)
        begun = begun_attempt(plan, row.execution_id, row.trace_id, whole)
        prepared = begun.prepared(sources.tools)
        plain = {key: _plain_data(value) for key, value in prepared.inputs.items()}
        # A credential written in the inputs themselves is as secret as one that was looked up by name.
        for auth in auths_in(plain):
            fields = auth if isinstance(auth, dict) else {}
            mask.learn(secrets_in(Material(fields={k: v for k, v in fields.items() if k != "credential"})))
        clean = execution_mask.redactor.data(mask.redactor.data({"inputs": plain, "spec": prepared.spec}))
        abridged = abridged_value(clean)
        return _RenderedInputs(
            event=events[-1],
            inputs=abridged["inputs"],
            spec=abridged["spec"],
            is_masked=MASK.encode() in msgspec.json.encode(abridged),
            reads_time=b"now()" in msgspec.json.encode(begun.task),
        )

    try:
        # Load before `rendered_inputs` runs: it runs in a thread and cannot await.
        whole = await sources.whole_events(row, events)
        return await sources.read(rendered_inputs)
    except TemplateError as problem:
        return _RenderedInputs(
            event=events[-1], unknown=execution_mask.redactor.text(f"they cannot be rendered: {problem}")
        )
    except ToolError as problem:
        return _RenderedInputs(event=events[-1], unknown=execution_mask.redactor.text(problem.message))
    except AbsentError as problem:
        return _RenderedInputs(event=events[-1], unknown=str(problem))


def _notes(current: _RenderedInputs, before: _RenderedInputs | None) -> Iterator[str]:
    if current.is_masked or (before is not None and before.is_masked):
        yield _SECRETS
    if before is not None and before.unknown is not None:
        yield f"The inputs of the earlier attempt are not known: {before.unknown}"
    if current.reads_time:
        yield _AS_STARTED


def _plain_data(value: Any) -> Any:
    """Inputs as plain data. SQL becomes its statements with their bound values."""
    match value:
        case Bound(statements=statements):
            statement_views = [{"sql": statement.text, "params": list(statement.params)} for statement in statements]
            return statement_views[0] if len(statement_views) == 1 else statement_views
        case dict():
            return {str(key): _plain_data(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain_data(item) for item in value]
        case _:
            return msgspec.to_builtins(value)
