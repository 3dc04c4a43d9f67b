"""Call grants: which nested playbook the holder of an order may start (reliability.md §2.3).

The task run of a call must be the current one in the recorded state of the order, or a hook of it, so that each has one
child. The path and arguments must equal the rendered inputs of the task. A part that depends on an earlier task of the
same pipeline is known to the worker only; then the fixed parts of the template must fit. Tools that are not built in
choose the playbook themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import NoetlError, ToolError
from noetl.base.ids import derived
from noetl.control.claiming.orders import ctx_of, events_until_claim, steps_ended_since, tasks_for
from noetl.control.commit.result_cache import ResultCache
from noetl.control.secrets.scopes import SecretScopes
from noetl.engine.execution import Execution, StepLease, StepRun
from noetl.engine.loops.state import Range
from noetl.engine.pipeline.progress import task_run_id
from noetl.engine.pipeline.scopes import Load
from noetl.engine.pipeline.secret_grants import Known, fits, fixed_parts
from noetl.engine.plan import Plan
from noetl.engine.side_runs.state import SideRunKind
from noetl.events.orders import PlaybookCall, Position
from noetl.net.task import Task
from noetl.store.contract import Store
from noetl.tools.registry import BUILT_IN

FAILED = "playbook.failed"
PLAYBOOK = "playbook"
# The moment at which the worker rendered the template is not known here, so a different value proves nothing.
_READS_CLOCK = re.compile(r"\bnow\s*\(")

Path = tuple[int, ...]
Read = Callable[[Task, str], Known]


class CallRefusedError(ToolError):
    """The caller may not start this playbook. The server counts and logs it for operators."""


def refused(message: str) -> CallRefusedError:
    return CallRefusedError(FAILED, message, child_status="refused")


async def check_call(call: PlaybookCall, plan: Plan, execution: Execution, store: Store, values: ResultCache) -> None:
    """CallRefusedError unless the order calls this playbook now. `NestedCalls.call` checks the lease itself."""
    run, lease = execution.run_of(call.order_id), execution.lease_of(call.order_id)
    if run is None or lease is None or lease.lease_epoch != call.lease_epoch:
        # Not refused here: the lease is checked again when the call is made, with the error for a late worker.
        return
    # The epoch is right and the worker is not: being late does not explain that.
    if lease.worker_id != call.worker_id:
        raise refused(f'"{call.path}" was not started: the order is held by another worker')
    if call.step_run_id != run.step_run_id:
        raise refused(f'"{call.path}" was not started: the order is of another step run')
    calling_tasks = list(_calling_tasks(call, plan, run, lease))
    if not calling_tasks:
        raise refused(f'"{call.path}" was not started: the order is not at this task run')
    if call.compensates is not None:
        _check_undone(call, execution, run)
        return

    def read(ctx: Callable[[Load], dict[str, Any]] | None, changed: frozenset[str]) -> Callable[[Load], bool]:
        def is_granted(load: Load) -> bool:
            def scopes(path: Path) -> SecretScopes:
                claimed_ctx = None if ctx is None else ctx(load)
                return SecretScopes(plan, execution, run, lease, claimed_ctx, load, at=path or None, changed=changed)

            return any(_calls(call, task, scopes(path).read, plan) for task, path in calling_tasks)

        return is_granted

    if await values.read(read(None, frozenset())):
        return
    # Rarely needed: other steps have written since the claim, and the worker rendered with the state at its claim.
    events = await events_until_claim(store, call.execution_id, call.order_id, call.lease_epoch)
    changed = await steps_ended_since(store, call.execution_id, call.order_id, call.lease_epoch)
    if not await values.read(read(lambda load: ctx_of(events, load), changed)):
        raise refused(f'"{call.path}" was not started: the task does not call it with these arguments')


def is_at_task_run(call: PlaybookCall, plan: Plan, execution: Execution) -> bool:
    """Whether the order is at the task run of the call."""
    run, lease = execution.run_of(call.order_id), execution.lease_of(call.order_id)
    if run is None or lease is None or run.step_run_id != call.step_run_id:
        return False
    return any(True for _ in _calling_tasks(call, plan, run, lease))


def _calling_tasks(
    call: PlaybookCall, plan: Plan, run: StepRun, lease: StepLease | Range
) -> Iterator[tuple[Task, Path]]:
    """The tasks that may have made the call, each with the path of its iteration."""
    step = plan.step(run.step)
    for position, path in _positions(run, lease):
        if position.task is None:
            continue
        run_id = task_run_id(run.step_run_id, position, path)
        if run.side_run is not None and run.side_run.kind is SideRunKind.ASYNC:
            run_id = run.side_run.task_run_id or run_id  # it continues the task run that accepted the asynchronous task
        tasks = list(tasks_for(step, run.side_run))
        # Rules of a v2-case step run tasks in an order that only the worker knows: any task of the step is possible.
        current = [task for task in tasks if task.name == position.task and step.case is None]
        if run_id == call.task_run_id:
            yield from ((task, path) for task in (current or tasks))
        for task in current or tasks:
            yield from ((hook, path) for hook_id, hook in _hooks(run_id, task) if hook_id == call.task_run_id)


def _positions(run: StepRun, lease: StepLease | Range) -> Iterator[tuple[Position, Path]]:
    """The positions in the pipelines of the order: one, or one for each begun iteration of its range."""
    if not isinstance(lease, Range) or run.loop is None:
        yield run.progress.position, ()
        return
    for path, begun in run.loop.begun.items():
        if begun.order_id == lease.order_id:
            yield begun.current_position(), path


def _hooks(run_id: str, task: Task) -> Iterator[tuple[str, Task]]:
    if task.policy is not None:
        phases = {"before": task.policy.before, "after": task.policy.after, "finally": task.policy.finally_}
        for phase, hooks in phases.items():
            yield from ((derived(run_id, phase, index), hook) for index, hook in enumerate(hooks))


def _check_undone(call: PlaybookCall, execution: Execution, run: StepRun) -> None:
    undone = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    is_undone = undone is not None and run.side_run is not None and run.side_run.kind is SideRunKind.COMPENSATION
    if not is_undone or undone is None or undone.child != call.compensates:
        raise refused(f"{call.compensates} was not undone: the order is not for that")


def _calls(call: PlaybookCall, task: Task, read: Read, plan: Plan) -> bool:
    """Whether the task may have made this call."""
    if task.kind not in BUILT_IN:
        return True
    inputs = task.inputs.data
    if task.kind != PLAYBOOK or not isinstance(inputs, Mapping):
        return False
    version = inputs.get("version")
    return (
        _renders_to(read, task, inputs.get("path"), call.path, str)
        and (version is None) == (call.version is None)
        and (version is None or _renders_to(read, task, version, call.version, str))
        and (_is_rewritten(task, plan) or _renders_to(read, task, inputs.get("args") or {}, call.payload, _arguments))
    )


def _is_rewritten(task: Task, plan: Plan) -> bool:
    """Whether rules of its step may replace its inputs for a further call (V2C-17)."""
    return bool(task.repeat) or any(step.case is not None and task in step.tasks for step in plan.net.transitions)


def _renders_to(read: Read, task: Task, authored: Any, value: Any, convert: Callable[[Any], Any]) -> bool:
    """Whether the authored input can be rendered to `value`; `convert` is what the tool does to the whole input."""
    if isinstance(authored, str) and is_template(authored):
        known = read(task, authored)
        if any(_as_json(convert(rendered)) == value for rendered in known.values):
            return True
        if known.is_all and not _READS_CLOCK.search(authored):
            return False
        # A part is known to the worker only. The text that the author wrote around it must still be there.
        return fits(authored, value) if isinstance(value, str) else not fixed_parts(authored)
    if isinstance(authored, Mapping):
        return (
            isinstance(value, Mapping)
            and authored.keys() == value.keys()
            and all(_renders_to(read, task, inner, value[key], _comparable_value) for key, inner in authored.items())
        )
    if isinstance(authored, list | tuple):
        return (
            isinstance(value, list)
            and len(authored) == len(value)
            and all(_renders_to(read, task, *pair, _comparable_value) for pair in zip(authored, value, strict=True))
        )
    return bool(_as_json(convert(authored)) == value)


def _comparable_value(value: Any) -> Any:
    return value


def _arguments(value: Any) -> Any:
    return value or {}


def _as_json(value: Any) -> Any:
    """The value as JSON transports it."""
    try:
        # The call came as JSON: a tuple became a list, a date became text.
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, NoetlError):
        return value
