"""The inputs of a task at the start of an attempt, rendered again from the log (POL-05, EVT-07).

Inputs are not recorded: they are derived from the log. The log is replayed up to the claim under which the attempt ran.
Then the order of that claim is rebuilt, and the earlier tasks of the same pipeline are applied. A replay up to the
attempt would be wrong: a worker sees `ctx` as of its claim, without later writes of other steps. Secrets are not in the
log, and appear here as `***`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from noetl.base.redaction import MASK
from noetl.control.claiming.orders import order_for
from noetl.engine.evolve import evolve
from noetl.engine.execution import Execution
from noetl.engine.pipeline import preparation
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.progress import position_after, position_after_entry
from noetl.engine.pipeline.scopes import KeychainView, MaterialView, PipelineScope, task_scope
from noetl.engine.plan import Plan
from noetl.engine.scopes import surroundings_of
from noetl.engine.v2_case.port import CALL, has_rules, input_names, next_task
from noetl.events.envelope import Event
from noetl.events.orders import Iterations, Order, Position
from noetl.events.secret_materials import Material
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import CaseStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import TokenClaimed
from noetl.net.names import known_names
from noetl.net.task import Task
from noetl.tools.registry import Registry
from noetl.worker.order_context import order_tasks
from noetl.worker.order_run import order_scope
from noetl.worker.secret_store import looked_up_names


class BegunAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at its start: its task, its scope, and the position of its pipeline."""

    task: Task
    around: PipelineScope
    position: Position
    now: float  # when it began: the value of `now()`
    over: dict[str, Any] | None = None  # inputs that a next call of v2-case overrides
    secret_names: frozenset[str] = frozenset()  # under which it reads the results of `secrets` tasks

    def prepared(self, tools: Registry) -> preparation.Prepared:
        """Its inputs and spec. Raises TemplateError or ToolError if they cannot be rendered: the attempt failed with
        the same error, or a value that it reads no longer exists."""
        bound = tools.bound_inputs(self.task.kind)
        around = msgspec.structs.replace(self.around, keychain=_MaskedKeychain({}))
        around = preparation.with_reference_args(self.task, around, self.position, now=self.now)
        scope = task_scope(around, self.position, self.task)
        secrets = self.secret_names if preparation.takes_sql(self.task, bound) else ()
        return preparation.prepare(self.task, scope, now=self.now, bound=bound, over=self.over, secrets=secrets)


class _MaskedKeychain(KeychainView):
    """A keychain in which every entry exists and every value is masked."""

    __slots__ = ()

    def lookup(self, name: str | int) -> Any:
        return _MaskedMaterial(Material(fields={}))

    def value(self) -> Any:
        return MASK


class _MaskedMaterial(MaterialView):
    __slots__ = ()

    def lookup(self, name: str | int) -> Any:
        return MASK

    def value(self) -> Any:
        return MASK


def begun_attempt(plan: Plan, execution_id: str, trace_id: str, events: Sequence[Event]) -> BegunAttempt:
    """The attempt whose `task.started` is the last of `events`, which are the log up to it with all stored values."""
    begun, started = events[-1], events[-1].payload
    assert isinstance(started, TaskStarted)
    execution, order, since = Execution(execution_id=execution_id, trace_id=trace_id), None, 0
    for at, event in enumerate(events[:-1]):
        evolve(execution, event)
        if event.step_run_id == begun.step_run_id and isinstance(event.payload, TokenClaimed | OrderClaimed):
            claimed = event.payload.order_id
            # A later claim replaces the order: the attempt ran under the last claim before it.
            if claimed is not None and _holds(execution, begun, claimed, started.path):
                order, since = order_for(plan, execution, claimed), at + 1
    if order is None:
        return _server_side_attempt(plan, execution, begun, started)
    own = [event for event in events[since:-1] if event.step_run_id == begun.step_run_id]
    return _at_worker(plan, order, begun, started, own)


def _holds(execution: Execution, begun: Event, order_id: str, path: tuple[int, ...]) -> bool:
    """Whether the attempt belongs to this order: each order of a loop has some of the iterations."""
    run = execution.runs.get(begun.step_run_id or "")
    if run is None or run.loop is None:
        return run is not None
    span = run.loop.ranges.get(order_id)
    return span is not None and span.path == path[:-1] and path[-1] in span


def _server_side_attempt(plan: Plan, execution: Execution, begun: Event, started: TaskStarted) -> BegunAttempt:
    """The attempt of a step that no worker runs, since it has only noop tasks."""
    run = execution.runs[begun.step_run_id or ""]
    task = next(one for one in plan.step(run.step).tasks if one.name == started.task)
    around = surroundings_of(plan, execution, run)
    return BegunAttempt(task=task, around=around, position=run.progress.position, now=begun.ts)


def _at_worker(plan: Plan, order: Order, begun: Event, started: TaskStarted, own: Sequence[Event]) -> BegunAttempt:
    step, its = plan.step(order.step), order.iterations
    around = order_scope(order, plan.net, plan.load, known_names(plan.net))
    if order.side_run is not None:
        around = preparation.side_run_surroundings(order.side_run, around)
    position = order.position
    if its is not None:
        around, position = _in_iteration(plan, order, its, around, started.path, own)
        around = preparation.with_iteration_args(step, around, position, now=begun.ts)
    reduced = its.reduced if its is not None else ()
    # Only events of the same iteration move the position: the others of the range have positions of their own.
    for event in own:
        match event.payload:
            case TaskProcessed(path=path) as processed if path == started.path:
                position = position_after(position, processed, event.ts)
                around = around.with_writes(processed.decision, reduced)
            case CaseStarted(path=path, decision=decision) if path == started.path:
                position, around = position_after_entry(position, decision), around.with_writes(decision, reduced)
    is_case, case = has_rules(step) and order.side_run is None, position.case
    tasks = {task.name: task for task in order_tasks(step, order)}
    return BegunAttempt(
        task=next_task(step, position) if is_case else tasks[started.task],
        around=input_names(step, around, position) if is_case else around,
        position=position,
        now=begun.ts,
        over=case.calls.over if is_case and case is not None and case.at == CALL else None,
        secret_names=frozenset(looked_up_names(step, position)),
    )


def _in_iteration(
    plan: Plan, order: Order, its: Iterations, around: PipelineScope, path: tuple[int, ...], own: Iterable[Event]
) -> tuple[PipelineScope, Position]:
    """The scope of an iteration of a range, and the position at which it begins or continues."""
    index = path[-1]
    if its.hands_on:  # one after another: it sees what those before it wrote
        for event in own:
            if isinstance(event.payload, TaskProcessed) and event.payload.path != path:
                around = around.with_writes(event.payload.decision, its.reduced)
    resumed, ctx = its.begun.get(index), around.ctx
    if resumed is not None:
        ctx = patched(ctx, resumed.writes)
    iteration = preparation.iteration_of(
        its, preparation.enclosing_iterations(its.outer), index, _item(plan, its, index)
    )
    position = resumed.position if resumed is not None else order.position
    return msgspec.structs.replace(around, ctx=ctx, iteration=iteration), position


def _item(plan: Plan, its: Iterations, index: int) -> Any:
    # A collection that is too large for the order is stored apart.
    if its.items is None:
        assert its.items_ref is not None
        return plan.collection(its.items_ref)[index]
    indices = its.indices if its.indices is not None else range(its.first, its.last + 1)
    return its.items[indices.index(index)]
