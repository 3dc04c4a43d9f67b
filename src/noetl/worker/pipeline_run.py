"""One run of a pipeline: of a step run, or of one iteration of a loop (PIPE-01).

The plumbing around the pure pipeline: it runs tools, waits out delays and writes down what happened. A task's
`task.processed` is durable before the next task starts, noop alone excepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.noop import KIND as NOOP
from noetl.engine.pipeline.noop import keeps_prev
from noetl.engine.pipeline.patches import written
from noetl.engine.pipeline.pipeline_scope import PipelineScope
from noetl.engine.pipeline.policy import PolicyRun, judge
from noetl.engine.pipeline.preparation import Prepared, inside, prepare, takes_sql
from noetl.engine.pipeline.progress import after, ending, over_budget, task_run_id
from noetl.engine.pipeline.scopes import task_scope
from noetl.engine.v2_case.port import input_names, with_names
from noetl.events.case_runs import CaseWaiting
from noetl.events.orders import SideRunOrder
from noetl.events.outcomes import Error, Outcome, TaskResult
from noetl.events.position import Position
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.tools.contract import Tool, ToolContext
from noetl.worker.attempt import attempt
from noetl.worker.hooks import has_hooks, with_hooks
from noetl.worker.journal import IterationStopped
from noetl.worker.lifetime import alive
from noetl.worker.order_context import OrderContext
from noetl.worker.schemas import conforming
from noetl.worker.secret_recovery import looked_up_names, recalled
from noetl.worker.side_runs import PLAYBOOK
from noetl.worker.task_run import TaskRun

Ended = StepDone | StepFailed | CaseWaiting

_NOBODYS = Scope({})  # where no rule reads one

RIDE_S = 0.05  # how long an event that nobody waits for may wait for company (design.md §3)


class PipelineRun:
    """`around` changes with what the pipeline writes. `interrupted`: the task it begins with had been started under an
    earlier lease. `Expired` comes out when the step run's time is over, `LeaseLost` when it is another worker's."""

    def __init__(self, place: OrderContext, around: PipelineScope, *, interrupted: bool = False) -> None:
        self._place, self.around = place, around
        self._path = around.iteration.path if around.iteration is not None else ()
        self._interrupted = interrupted
        self._starting: TaskStarted | None = None
        self._deferred = False  # the task under way was accepted, and runs elsewhere (TOOL-12)
        self._expiries = place.order.expiries
        self.once = False
        self.calls_as: str | None = None
        self.position: Position | None = None  # where it stood last

    async def to_end(self, position: Position) -> Ended:
        """Run from `position` to the end, and say how it ended."""
        try:
            position = await recalled(self._place.step, position, self._looked_up)
        except (TemplateError, ToolError) as problem:
            error = Error(kind=problem.kind, message=problem.message)
            return self._place.writer.ended(StepFailed(error=error))
        while True:
            end = await self._next(position)
            if not isinstance(end, Position):
                return self._place.writer.ended(end)
            position = end

    async def _looked_up(self, task: Task, position: Position) -> Any:
        """What a `secrets` task gives, without recording that it ran again."""
        place, now = self._place, self._place.clock.now()
        around = inside(task, await place.safe.scope_with_secrets(task, self.around), position, now=now)
        scope = task_scope(around, position, task)
        prepared = prepare(task, scope, now=now, bound=place.tools.bound_inputs(task.kind))
        credentials = await place.safe.credentials(prepared.inputs)
        context = self.task_run(task, position).context(prepared.spec, scope, credentials)
        return (await place.tools.tool(task.kind).run(prepared.inputs, context)).result

    def task_run(self, task: Task, position: Position, run_id: str | None = None) -> TaskRun:
        run_id = run_id or task_run_id(self._place.order.step_run_id, position, self._path)
        return TaskRun(self._place, task, position, run_id, self._path, self.calls_as)

    async def _next(self, position: Position) -> Position | Ended:
        """Run the task at `position`: the next position, or how the pipeline ends."""
        place = self._place
        if position.task is None:
            return self._end(position)
        if error := over_budget(position, place.max_task_runs):
            return StepFailed(error=error)
        if position.not_before > (now := place.clock.now()):
            async with alive(place.order.expiries, now):
                await place.sleep(position.not_before - now)
        if place.journal.paused:
            async with alive(place.order.expiries, now):
                await place.until_resumed()
        task, following = self._task(position)
        processed, own = place.writer.processed(await self._processed(task, following, position))
        at = place.journal.add(processed)
        self._write(processed.decision)
        position = self.position = after(position, own, at)
        end = self._ending(position, own.decision)
        if end is None and task.kind != NOOP:
            await place.flush()  # durable before the next task starts
            if place.journal.stopped and self._path in place.journal.stopped:
                raise IterationStopped
        return position if end is None else end

    # what a case run does in its own way

    def _task(self, position: Position) -> tuple[Task, str | None]:
        """The task at the position, and the one that follows it."""
        assert position.task is not None
        return self._place.task(position.task)

    def _named(self, around: PipelineScope, position: Position) -> PipelineScope:
        """The surroundings with names that only this place has."""
        return around

    def _over(self, position: Position) -> dict[str, Any] | None:
        """Inputs laid over those of the task."""
        return None

    def _judge(self, run: PolicyRun) -> Decided:
        return judge(run)

    def _end(self, position: Position) -> Ended:
        return StepDone(result=position.prev or TaskResult())

    def _ending(self, position: Position, decision: Decided) -> Ended | None:
        return ending(position, decision)

    def _write(self, decision: Decided) -> None:
        """What the pipeline itself sees of its writes; contributions to a loop it does not (LOOP-14)."""
        if decision.set_ctx:
            iterations = self._place.order.iterations
            reduced = iterations.reduced if iterations is not None else ()
            patch = {key: value for key, value in decision.set_ctx.items() if key not in reduced}
            self.around = msgspec.structs.replace(self.around, ctx=written(self.around.ctx, patch))
        if decision.set_vars:
            vars_ = written(self.around.vars or {}, decision.set_vars)
            self.around = msgspec.structs.replace(self.around, vars=vars_)

    async def _processed(self, task: Task, following: str | None, position: Position) -> TaskProcessed:
        run = self.task_run(task, position)
        if self.around.vars_in_ctx:
            self._starting = run.started()  # v2-case tells the rendered args with it (V2C-26)
        else:
            self._place.journal.add(run.started())
        self._deferred = False
        if has_hooks(task):
            return await with_hooks(self, run, following)
        return await self.judged(run, following)

    def for_hook(self, names: dict[str, Any]) -> PipelineRun:
        """For a hook, which runs even when the time of the step run is over (POL-13); `names` are its own."""
        run = PipelineRun(self._place, with_names(self.around, **names) if names else self.around)
        run._expiries = {}
        return run

    async def judged(self, run: TaskRun, following: str | None) -> TaskProcessed:
        task, position = run.task, run.position
        around, prepared, outcome = await self.outcome(run)
        if not self._deferred:
            outcome = await conforming(task.kind, prepared, outcome, self._place.control_plane.schema)
        decision = self._judge(
            PolicyRun(
                task=task,
                following=following,
                position=position,
                task_run_id=run.run_id,
                outcome=outcome,
                scope=_NOBODYS if task.policy is None else task_scope(around, position, task, outcome=outcome),
                now=self._place.clock.now(),
            )
        )
        return TaskProcessed(
            task=task.name,
            visit=position.visit,
            attempt=position.attempt,
            task_run_id=run.run_id,
            outcome=outcome,
            decision=decision,
            keeps_prev=outcome.ok and keeps_prev(task),
            path=self._path,
            worker_id=self._place.worker_id,
            deferred=self._deferred and outcome.ok,
            origin=task.origin,
        )

    async def outcome(self, run: TaskRun) -> tuple[PipelineScope, Prepared, Outcome]:
        """The outcome of one task run, and what its policy may read besides."""
        place, around, prepared, task, position = self._place, self.around, Prepared(), run.task, run.position
        now = place.clock.now()
        try:
            around = inside(
                task, self._named(await place.safe.scope_with_secrets(task, around), position), position, now=now
            )
            scope = task_scope(around, position, task)
            bound = place.tools.bound_inputs(task.kind)
            secrets = looked_up_names(place.step, position) if takes_sql(task, bound) else ()
            prepared = prepare(task, scope, now=now, bound=bound, over=self._over(position), secrets=secrets)
            tool = place.tools.tool(task.kind)
            credentials = await place.safe.credentials(prepared.inputs)
        except (TemplateError, ToolError) as problem:  # in an input: an ordinary error outcome (TPL-09)
            self._tell_start({})
            return around, prepared, run.not_run(now, problem)
        self._tell_start(prepared.inputs)
        interrupted, self._interrupted = self._interrupted, False
        if self.once or prepared.spec.get("on_lost") == "fail":
            if interrupted:
                return around, prepared, run.lost(now)
            await place.flush()  # a task that must not be repeated is known to have begun before it begins
        self._deferred = bool(prepared.spec.get("async")) and task.kind != NOOP
        if self._deferred and task.kind != PLAYBOOK:  # a playbook is begun here, and waited for beside (O-08)
            return around, prepared, run.accepted(now)
        if task.kind == NOOP:  # over before anybody could be told, or its time
            context = run.context(prepared.spec, scope, credentials)
            return around, prepared, await self._attempted(tool, prepared, context)
        crash_point("worker.before_tool", place.order.step)
        output = run.live_output()
        context = run.context(prepared.spec, scope, credentials, output)
        try:
            async with self._told_soon(), alive(self._expiries, place.clock.now()):
                outcome = await self._attempted(tool, prepared, context)
        finally:
            if output is not None:
                output.end()
        crash_point("worker.after_effect", place.order.step)
        return around, prepared, outcome

    async def _attempted(self, tool: Tool, prepared: Prepared, context: ToolContext) -> Outcome:
        place = self._place
        return await attempt(
            tool,
            prepared.inputs,
            context,
            clock=place.clock,
            sleep=place.sleep,
            trace_id=place.order.trace_id,
            ready=place.confirm_lease,
        )

    def _tell_start(self, inputs: dict[str, Any]) -> None:
        if self._starting is not None:
            self._place.journal.add(self._place.writer.started(self._starting, inputs.get("args")))
            self._starting = None

    @asynccontextmanager
    async def _told_soon(self) -> AsyncIterator[None]:
        """Report what is waiting once the tool has run for a moment; most are done before."""
        flushing: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            RIDE_S, lambda: flushing.append(asyncio.ensure_future(self._place.flush()))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task_ in flushing:
                await task_


class SideRunPipeline(PipelineRun):
    """One side run: a pipeline like any other, that ends when its tasks have. `once`: that a task has begun is recorded
    before it begins, so that nobody begins it again (SAGA-03)."""

    def __init__(
        self, place: OrderContext, around: PipelineScope, side_run: SideRunOrder, *, interrupted: bool
    ) -> None:
        super().__init__(place, around, interrupted=interrupted)
        self.once, self.calls_as = side_run.once, side_run.task_run_id

    def _named(self, around: PipelineScope, position: Position) -> PipelineScope:
        return around if position.case is None else input_names(self._place.step, around, position)
