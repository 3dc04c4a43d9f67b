"""Inputs of attempts: what a task was given each time it was tried, and what differs from another time (POL-05).

Nothing of it is recorded for its own sake: inputs follow from the log (`control/views/begun_attempts.py`). What they
cannot tell is said: a stored value that is gone, a kind that is not installed here, what a tool read by itself.
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
from noetl.store.contract import ExecutionRow, History, Results, SingleRow, Store
from noetl.templates.sql.statements import Bound
from noetl.tools.registry import Registry

_PAGE = 1_000
_MOST_SEEN = 20_000  # events that are read for one page of attempts
_TYPES = (TaskStarted.event_type, TaskProcessed.event_type)
_SECRETS = "Secrets are shown as ***: whether they were the same each time is not known."
_AS_STARTED = "now() is taken as the moment at which the attempt began."

Found = TypeVar("Found")


class AttemptSources(Protocol):
    """Where attempts are read from: a server's store, or one on this machine."""

    history: History
    tools: Registry

    async def net(self, net_hash: str) -> Net: ...

    async def mask(self, execution_id: str) -> Mask:
        """The secrets that the execution has read."""

    async def whole_events(self, row: ExecutionRow, events: list[Event]) -> list[Event]:
        """The events with what is stored apart from them."""

    async def read(self, look: Callable[[Load], Found]) -> Found:
        """What `look` finds, with all that it loads at hand, outside the event loop: replaying a log takes time."""


class LocalSources:
    """A store on this machine. Which secrets an execution has read is not known here, and its log is masked already."""

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

    async def read(self, look: Callable[[Load], Found]) -> Found:
        return look(self._results.load)


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
    """The attempts of a step's tasks, or of all. Their ends are looked for only as far as a page of the log reaches."""
    found: dict[tuple[str, str], AttemptView] = {}
    beyond, seen, only = None, 0, SingleRow(types=_TYPES, step=step, limit=_PAGE)
    while seen < _MOST_SEEN and (events := await history.events(execution_id, after=after, only=only)):
        seen, after = seen + len(events), events[-1].seq
        for event in events:
            match event.payload:
                case TaskStarted() as started if beyond is None and _is_meant(started, task, path):
                    if len(found) == limit:
                        beyond = max(one.seq for one in found.values())
                        continue
                    found[started.task_run_id, started.task] = attempt_view(event)
                case TaskProcessed(task_run_id=run_id, task=name, outcome=outcome) if (run_id, name) in found:
                    one = found[run_id, name]
                    found[run_id, name] = msgspec.structs.replace(one, status=_status(outcome.status))
        if len(events) < _PAGE or (beyond is not None and all(one.status != "running" for one in found.values())):
            break
    else:
        beyond = beyond if beyond is not None or seen < _MOST_SEEN else after
    return AttemptPage(attempts=list(found.values()), next=beyond)


def _is_meant(started: TaskStarted, task: str | None, path: tuple[int, ...] | None) -> bool:
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


class _Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its inputs, or why they are not known."""

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
    """What the attempt that began with event `seq` was given, compared with the attempt before it, or with the last one
    of the same task in the execution `against`. NotFoundError where no attempt began there."""
    events = await sources.history.events(row.execution_id, only=SingleRow(limit=seq))
    if not events or events[-1].seq != seq or not isinstance(events[-1].payload, TaskStarted):
        raise NotFoundError(f"no attempt of execution {row.execution_id} began with event {seq}")
    meant = await _rendered(sources, row, events)
    earlier = await _earlier(sources, events, against)
    before = await _rendered(sources, against or row, earlier) if earlier else None
    known = before is not None and before.inputs is not None and meant.inputs is not None
    return AttemptInputs(
        execution_id=row.execution_id,
        attempt=meant.view,
        inputs=meant.inputs,
        spec=meant.spec,
        unknown=meant.unknown,
        notes=list(_notes(meant, before)),
        before=before.view if before is not None else None,
        before_execution_id=(against or row).execution_id if before is not None else None,
        differences=differences(before.inputs, meant.inputs) if known and before is not None else None,
    )


async def _earlier(sources: AttemptSources, events: list[Event], against: ExecutionRow | None) -> list[Event]:
    """The log up to the attempt to compare with; empty where there is none."""
    last = events[-1]
    if against is None:
        at = next((at for at in range(len(events) - 2, -1, -1) if _is_same(events[at], last)), None)
        return events[: at + 1] if at is not None else []
    only = SingleRow(types=(TaskStarted.event_type,), step=last.step, limit=_PAGE, newest=True)
    newest = await sources.history.events(against.execution_id, only=only)
    same = next((event for event in reversed(newest) if _is_same(event, last)), None)
    if same is None:
        return []
    return await sources.history.events(against.execution_id, only=SingleRow(limit=same.seq))


def _is_same(one: Event, other: Event) -> bool:
    """Whether both are attempts of the same task, in the same iteration."""
    a, b = one.payload, other.payload
    if not isinstance(a, TaskStarted) or not isinstance(b, TaskStarted):
        return False
    return one.step == other.step and a.task == b.task and a.path == b.path


async def _rendered(sources: AttemptSources, row: ExecutionRow, events: list[Event]) -> _Rendered:
    net, mask = await sources.net(row.net_hash), Mask()
    known = await sources.mask(row.execution_id)

    def rendered_inputs(load: Load) -> _Rendered:
        plan = Plan(net, load=load)
        begun = begun_attempt(plan, row.execution_id, row.trace_id, whole)
        prepared = begun.prepared(sources.tools)
        plain = {key: _plain(value) for key, value in prepared.inputs.items()}
        # A credential that stands in the inputs itself is as secret as one that was looked up.
        for auth in auths_in(plain):
            fields = auth if isinstance(auth, dict) else {}
            mask.learn(secrets_in(Material(fields={k: v for k, v in fields.items() if k != "credential"})))
        clean = known.redactor.data(mask.redactor.data({"inputs": plain, "spec": prepared.spec}))
        shown = abridged_value(clean)
        return _Rendered(
            event=events[-1],
            inputs=shown["inputs"],
            spec=shown["spec"],
            is_masked=MASK.encode() in msgspec.json.encode(shown),
            reads_time=b"now()" in msgspec.json.encode(begun.task),
        )

    try:
        whole = await sources.whole_events(row, events)
        return await sources.read(rendered_inputs)
    except TemplateError as problem:
        return _Rendered(event=events[-1], unknown=known.redactor.text(f"they cannot be rendered: {problem}"))
    except ToolError as problem:
        return _Rendered(event=events[-1], unknown=known.redactor.text(problem.message))
    except AbsentError as problem:
        return _Rendered(event=events[-1], unknown=str(problem))


def _notes(meant: _Rendered, before: _Rendered | None) -> Iterator[str]:
    if meant.is_masked or (before is not None and before.is_masked):
        yield _SECRETS
    if before is not None and before.unknown is not None:
        yield f"The inputs of the earlier attempt are not known: {before.unknown}"
    if meant.reads_time:
        yield _AS_STARTED


def _plain(value: Any) -> Any:
    """Inputs as plain data: SQL as its statements, with the values that are bound to them."""
    match value:
        case Bound(statements=statements):
            shown = [{"sql": one.text, "params": list(one.params)} for one in statements]
            return shown[0] if len(shown) == 1 else shown
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return msgspec.to_builtins(value)
