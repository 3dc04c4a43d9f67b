"""Runner: takes one order through its pipeline (PIPE-01).

The plumbing around the pure pipeline: it runs tools, waits out delays and reports. A task's `task.processed` is
durable before the next task starts, noop alone excepted; the last one travels with the end of the step run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from noetl.clock import Clock
from noetl.errors import TemplateError, ToolError
from noetl.net.net import Net, Transition
from noetl.net.task import Task
from noetl.pipeline.noop import KIND as NOOP
from noetl.pipeline.noop import keeps_prev
from noetl.pipeline.patches import written
from noetl.pipeline.policy import Run, judge
from noetl.pipeline.preparation import Prepared, inside, prepare
from noetl.pipeline.progress import MAX_TASK_RUNS, after, ending, over_budget, task_run_id
from noetl.pipeline.scopes import task_scope
from noetl.pipeline.surroundings import Surroundings
from noetl.records.events import StepDone, StepFailed, TaskProcessed, TaskStarted
from noetl.records.orders import Order, Report
from noetl.records.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.records.position import Position
from noetl.templates.scope import Scope
from noetl.tools.contract import ToolContext
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep, attempt, error_of
from noetl.worker.journal import Journal
from noetl.worker.lifetime import Expired, alive
from noetl.worker.names import names_in
from noetl.worker.office import Office
from noetl.worker.payloads import fitted, max_payload_bytes

RIDE_S = 0.05  # how long an event that nobody waits for may wait for company (DESIGN §3)


class Runner:
    """Runs one order. `LeaseLost` comes out of `run` when the order turns out to be another worker's."""

    def __init__(
        self, order: Order, net: Net, *, office: Office, tools: Registry, clock: Clock, sleep: Sleep, worker_id: str
    ) -> None:
        self._order = order
        self._step = _transition(net, order.step)
        self._max_task_runs = int(net.executor.limits.get("max_task_runs", MAX_TASK_RUNS))
        self._max_payload_bytes = max_payload_bytes(net)
        self._office, self._tools, self._clock, self._sleep = office, tools, clock, sleep
        self._journal = Journal(order, office, clock, worker_id)
        self._around = Surroundings(
            execution_id=order.execution_id,
            args=order.args,
            workload=order.workload,
            ctx=order.ctx,
            token=order.token,
            results=order.results,
            load=office.load,
        )

    async def run(self) -> Report:
        """Run the pipeline to its end; the report of that end is the caller's to hand in."""
        position = self._order.position
        while True:
            try:
                end = await self._next(position)
            except Expired as expired:
                end = StepFailed(error=expired.error)
            if not isinstance(end, Position):
                self._journal.add(end)
                return self._journal.report()
            position = end

    async def _next(self, position: Position) -> Position | StepDone | StepFailed:
        """Run the task at `position`: the next position, or how the step run ends."""
        if position.task is None:
            return StepDone(result=position.prev or TaskResult())
        if error := over_budget(position, self._max_task_runs):
            return StepFailed(error=error)
        if position.not_before > (now := self._clock.now()):
            async with alive(self._order.expiries, self._clock.now()):
                await self._sleep(position.not_before - now)
        task, following = _task_and_following(self._step, position.task)
        processed = await self._processed(task, following, position)
        at = self._journal.add(processed)
        if processed.decision.set_ctx:
            ctx = written(self._around.ctx, processed.decision.set_ctx)
            self._around = msgspec.structs.replace(self._around, ctx=ctx)
        position = after(position, processed, at)
        end = ending(position, processed.decision)
        if end is None and task.kind != NOOP:
            await self._journal.flush()  # durable before the next task starts
        return position if end is None else end

    async def _processed(self, task: Task, following: str | None, position: Position) -> TaskProcessed:
        run_id = task_run_id(self._order.step_run_id, position)
        self._journal.add(
            TaskStarted(
                task=task.name, kind=task.kind, visit=position.visit, attempt=position.attempt, task_run_id=run_id
            )
        )
        around, prepared, outcome = await self._outcome(task, position, run_id)
        run = Run(
            task=task,
            following=following,
            position=position,
            step_run_id=self._order.step_run_id,
            outcome=outcome,
            scope=task_scope(around, position, task, outcome=outcome),
            now=self._clock.now(),
        )
        return TaskProcessed(
            task=task.name,
            visit=position.visit,
            attempt=position.attempt,
            task_run_id=run_id,
            outcome=fitted(outcome, self._max_payload_bytes, self._office.keep),
            decision=judge(run),
            keeps_prev=outcome.ok and keeps_prev(task.kind, prepared.inputs),
        )

    async def _outcome(self, task: Task, position: Position, run_id: str) -> tuple[Surroundings, Prepared, Outcome]:
        """The outcome of one task run, and what its policy may read besides."""
        around, prepared, now = self._around, Prepared(), self._clock.now()
        try:
            around = inside(task, around, position, now=now)
            scope = task_scope(around, position, task)
            prepared = prepare(task, scope, now=now)
            tool = self._tools.tool(task.kind)
        except (TemplateError, ToolError) as problem:  # in an input: an ordinary error outcome (TPL-09)
            return around, prepared, self._not_run(task, position, run_id, now, problem)
        if position == self._order.position and self._order.interrupted and prepared.spec.get("on_lost") == "fail":
            return around, prepared, self._not_run(task, position, run_id, now, _lost(task))
        if prepared.spec.get("on_lost") == "fail":
            await self._journal.flush()  # a task that must not be repeated is known to have begun before it begins
        async with self._told_soon(task), alive(self._order.expiries, self._clock.now()):
            outcome = await attempt(
                tool,
                prepared.inputs,
                self._context(task, position, run_id, prepared.spec, scope),
                clock=self._clock,
                sleep=self._sleep,
                trace_id=self._order.trace_id,
            )
        return around, prepared, outcome

    def _not_run(
        self, task: Task, position: Position, run_id: str, now: float, problem: TemplateError | ToolError
    ) -> Outcome:
        meta = Meta(
            attempt=position.attempt,
            started_at=now,
            finished_at=self._clock.now(),
            trace_id=self._order.trace_id,
            task_run_id=run_id,
        )
        if isinstance(problem, ToolError):
            error = error_of(problem)
        else:
            error = Error(kind=problem.kind, message=f'inputs of task "{task.name}": {problem}')
        helpers = self._tools.tool(task.kind).helpers() if self._tools.runs(task.kind) else {}
        return Outcome(status=Status.ERROR, error=error, meta=meta, helpers=helpers)

    def _context(self, task: Task, position: Position, run_id: str, spec: dict[str, Any], scope: Scope) -> ToolContext:
        order = self._order
        return ToolContext(
            execution_id=order.execution_id,
            step=order.step,
            task=task.name,
            attempt=position.attempt,
            task_run_id=run_id,
            idempotency_key=f"{order.execution_id}/{order.step_run_id}/{task.name}/{position.visit}",
            spec=spec,
            name=names_in(scope),
        )

    @asynccontextmanager
    async def _told_soon(self, task: Task) -> AsyncIterator[None]:
        """Report what is waiting once the tool has run for a moment; most are done before."""
        if task.kind == NOOP:
            yield
            return
        flushing: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            RIDE_S, lambda: flushing.append(asyncio.ensure_future(self._journal.flush()))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task_ in flushing:
                await task_


def _lost(task: Task) -> ToolError:
    message = f'task "{task.name}" was interrupted with its worker, and on_lost says not to repeat it'
    return ToolError("lease.lost", message, unknown=True)


def _transition(net: Net, name: str) -> Transition:
    return next(step for step in net.transitions if step.name == name)


def _task_and_following(step: Transition, name: str) -> tuple[Task, str | None]:
    index = next(i for i, task in enumerate(step.tasks) if task.name == name)
    following = step.tasks[index + 1 : index + 2]
    return step.tasks[index], following[0].name if following else None
