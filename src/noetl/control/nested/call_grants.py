"""Call grants: which nested playbook the holder of an order may start (reliability.md §2.3).

The task run that asks is the one the order stands at, by what is recorded, or a hook of it: so there is one child for
each. What it asks for is what its task renders to. A part of it that comes of an earlier task of the same pipeline is
the worker's word; then the fixed parts must fit. A kind that is not built in decides itself which playbook it calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import NoetlError, ToolError
from noetl.base.ids import derived
from noetl.base.source import is_template
from noetl.control.claiming.order_needs import tasks_for
from noetl.control.results.order_reads import ctx_of, events_until_claim, steps_ended_since
from noetl.control.results.result_cache import ResultCache
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
# The moment at which the worker rendered the template is not known here, so another value is no sign of a lie.
_READS_CLOCK = re.compile(r"\bnow\s*\(")

Path = tuple[int, ...]
Read = Callable[[Task, str], Known]


class CallRefusedError(ToolError):
    """It is not for who asks; operators want to know of that."""


def refused(message: str) -> CallRefusedError:
    return CallRefusedError(FAILED, message, child_status="refused")


async def check_call(call: PlaybookCall, plan: Plan, execution: Execution, store: Store, values: ResultCache) -> None:
    """CallRefusedError unless the held order calls this playbook now. The lease itself is looked at elsewhere."""
    run, lease = execution.run_of(call.order_id), execution.lease_of(call.order_id)
    if run is None or lease is None or lease.lease_epoch != call.lease_epoch:
        # Not refused here: the lease is looked at again when the call is made, and a late worker is told so there.
        return
    if lease.worker_id != call.worker_id:  # nobody comes to this by being late
        raise refused(f'"{call.path}" was not started: the order is held by another worker')
    if call.step_run_id != run.step_run_id:
        raise refused(f'"{call.path}" was not started: the order is of another step run')
    found = list(_calling(call, plan, run, lease))
    if not found:
        raise refused(f'"{call.path}" was not started: the order does not stand at this task run')
    if call.compensates is not None:
        _check_undone(call, execution, run)
        return

    def read(ctx: Callable[[Load], dict[str, Any]] | None, changed: frozenset[str]) -> Callable[[Load], bool]:
        def is_granted(load: Load) -> bool:
            def scopes(path: Path) -> SecretScopes:
                own = None if ctx is None else ctx(load)
                return SecretScopes(plan, execution, run, lease, own, load, at=path or None, changed=changed)

            return any(_calls(call, task, scopes(path).read, plan) for task, path in found)

        return is_granted

    if await values.read(read(None, frozenset())):
        return
    # Rarely: what other steps have written since the order was given out, its worker does not know.
    events = await events_until_claim(store, call.execution_id, call.order_id, call.lease_epoch)
    changed = await steps_ended_since(store, call.execution_id, call.order_id, call.lease_epoch)
    if not await values.read(read(lambda load: ctx_of(events, load), changed)):
        raise refused(f'"{call.path}" was not started: the task does not call it with these arguments')


def stands_at(call: PlaybookCall, plan: Plan, execution: Execution) -> bool:
    """Whether the order is at the task run that the call speaks of."""
    run, lease = execution.run_of(call.order_id), execution.lease_of(call.order_id)
    if run is None or lease is None or run.step_run_id != call.step_run_id:
        return False
    return any(True for _ in _calling(call, plan, run, lease))


def _calling(call: PlaybookCall, plan: Plan, run: StepRun, lease: StepLease | Range) -> Iterator[tuple[Task, Path]]:
    """The tasks that may be the one whose run asks."""
    step = plan.step(run.step)
    for position, path in _standing(run, lease):
        if position.task is None:
            continue
        run_id = task_run_id(run.step_run_id, position, path)
        if run.side_run is not None and run.side_run.kind is SideRunKind.ASYNC:
            run_id = run.side_run.task_run_id or run_id  # it goes on with the task run that it was accepted by
        tasks = list(tasks_for(step, run.side_run))
        # Rules of a v2-case step run tasks in an order that only the worker knows: any task of the step may be meant.
        own = [task for task in tasks if task.name == position.task and step.case is None]
        if run_id == call.task_run_id:
            yield from ((task, path) for task in (own or tasks))
        for task in own or tasks:
            yield from ((hook, path) for hook_id, hook in _hooks(run_id, task) if hook_id == call.task_run_id)


def _standing(run: StepRun, lease: StepLease | Range) -> Iterator[tuple[Position, Path]]:
    if not isinstance(lease, Range) or run.loop is None:
        yield run.position, ()
        return
    for path, begun in run.loop.begun.items():
        if begun.order_id == lease.order_id:
            yield begun.stands(), path


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
    """Whether the task may come to this call."""
    if task.kind not in BUILT_IN:
        return True
    inputs = task.inputs.data
    if task.kind != PLAYBOOK or not isinstance(inputs, Mapping):
        return False
    version = inputs.get("version")
    return (
        _gives(read, task, inputs.get("path"), call.path, str)
        and (version is None) == (call.version is None)
        and (version is None or _gives(read, task, version, call.version, str))
        and (_is_rewritten(task, plan) or _gives(read, task, inputs.get("args") or {}, call.payload, _arguments))
    )


def _is_rewritten(task: Task, plan: Plan) -> bool:
    """Whether rules of its step may write its inputs anew, for a next call (V2C-17)."""
    return bool(task.repeat) or any(step.case is not None and task in step.tasks for step in plan.net.transitions)


def _gives(read: Read, task: Task, written: Any, found: Any, made: Callable[[Any], Any]) -> bool:
    """Whether what is written can be rendered to `found`; `made` is what the tool makes of the whole."""
    if isinstance(written, str) and is_template(written):
        known = read(task, written)
        if any(_plain(made(value)) == found for value in known.values):
            return True
        if known.is_all and not _READS_CLOCK.search(written):
            return False
        # Something in it is the worker's word. What the author wrote around it must still be there.
        return fits(written, found) if isinstance(found, str) else not fixed_parts(written)
    if isinstance(written, Mapping):
        return (
            isinstance(found, Mapping)
            and written.keys() == found.keys()
            and all(_gives(read, task, value, found[key], _same) for key, value in written.items())
        )
    if isinstance(written, list | tuple):
        return (
            isinstance(found, list)
            and len(written) == len(found)
            and all(_gives(read, task, *pair, _same) for pair in zip(written, found, strict=True))
        )
    return bool(_plain(made(written)) == found)


def _same(value: Any) -> Any:
    return value


def _arguments(value: Any) -> Any:
    return value or {}


def _plain(value: Any) -> Any:
    """As it is after it was sent."""
    try:
        # The call came as JSON: a tuple became a list, a date became text.
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, NoetlError):
        return value
