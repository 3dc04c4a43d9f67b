"""One run of a pipeline: of a step run, or of one iteration of a loop (PIPE-01).

The plumbing around the pure pipeline: it runs tools, waits out delays and writes down what happened. A task's
`task.processed` is durable before the next task starts, noop alone excepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from noetl.base.crash_points import crash_point
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.policy import PolicyRun, judge
from noetl.engine.pipeline.preparation import NOOP, Prepared, inside, keeps_prev, prepare, takes_sql
from noetl.engine.pipeline.progress import after, ending, over_budget, task_run_id
from noetl.engine.pipeline.scopes import PipelineScope, task_scope
from noetl.engine.v2_case.port import input_names, with_names
from noetl.events.orders import Position, SideRunOrder
from noetl.events.outcomes import Error, Outcome, TaskResult
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from noetl.events.v2_case_runs import CaseWaiting
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.tools.contract import Tool, ToolContext
from noetl.worker.attempt import attempt, conforming
from noetl.worker.hooks import has_hooks, with_hooks
from noetl.worker.order_context import PLAYBOOK, OrderContext, alive
from noetl.worker.report_queue import IterationStopped
from noetl.worker.secret_store import looked_up_names, no_credentials, recalled
from noetl.worker.task_context import TaskContext, ToolNames

Ended = StepDone | StepFailed | CaseWaiting

_NOBODYS = Scope({})  # where no rule reads one

# Most tools are done sooner, and then their start and their end are one report.
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
        place = self._place
        try:
            if position.results:  # else it begins here
                position = await recalled(place.step, position, self._looked_up)
        except (TemplateError, ToolError) as problem:
            error = Error(kind=problem.kind, message=problem.message)
            return place.writer.ended(StepFailed(error=error))
        while position.task is not None:
            if error_ := over_budget(position, place.facts.max_task_runs):
                return place.writer.ended(StepFailed(error=error_))
            if position.not_before or place.journal.paused:
                await self._wait(position)
            run = self._begun(position)
            processed = await (with_hooks(self, run) if has_hooks(run.task) else self.judged(run))
            # `recorded` is for the log. Where a secret was masked in it, `own` still has it: the next task of this
            # pipeline may need what the one before looked up.
            recorded, own = place.writer.processed(processed)
            at = place.journal.add(recorded)
            self._write(recorded.decision)
            position = self.position = after(position, own, at)
            if (end := self._ending(position, own.decision)) is not None:
                return place.writer.ended(end)
            # A noop has no effect that could be repeated, so nothing is lost when it is run again.
            if run.task.kind != NOOP:
                await place.flush()  # durable before the next task starts
                if place.journal.stopped and self._path in place.journal.stopped:
                    raise IterationStopped
        return place.writer.ended(self._end(position))

    async def _wait(self, position: Position) -> None:
        """Until the delay of a retry is over, and the execution goes on."""
        place, now = self._place, self._place.clock.now()
        if position.not_before > now:
            async with alive(place.order.expiries, now):
                await place.sleep(position.not_before - now)
        if place.journal.paused:
            async with alive(place.order.expiries, now):
                await place.until_resumed()

    def _begun(self, position: Position) -> TaskContext:
        """The run of the task at `position`, whose start is told."""
        task, following = self._task(position)
        run = self.task_run(task, position, following=following)
        if self.around.vars_in_ctx:
            self._starting = run.started()  # v2-case tells the rendered args with it (V2C-26)
        else:
            self._place.journal.add(run.started())
        self._deferred = False
        return run

    async def _looked_up(self, task: Task, position: Position) -> Any:
        """What a `secrets` task gives, without recording that it ran again."""
        place, now = self._place, self._place.clock.now()
        around = inside(task, await self._with_keychain(task), position, now=now)
        names = ToolNames(around, position, task)
        prepared = prepare(task, names.scope, now=now, bound=place.tools.bound_inputs(task.kind))
        credentials = await place.safe.credentials(prepared.inputs)
        context = self.task_run(task, position).for_tool(prepared.spec, names, credentials)
        return (await place.tools.tool(task.kind).run(prepared.inputs, context)).result

    async def _with_keychain(self, task: Task) -> PipelineScope:
        """The surroundings with what the task reads of the keychain."""
        place, reads = self._place, self._place.facts.keychain_reads(task)
        return await place.safe.scope_with_secrets(reads, self.around) if reads else self.around

    def task_run(
        self, task: Task, position: Position, run_id: str | None = None, *, following: str | None = None
    ) -> TaskContext:
        run_id = run_id or task_run_id(self._place.order.step_run_id, position, self._path)
        return TaskContext(self._place, task, position, run_id, self._path, following=following, calls_as=self.calls_as)

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
        """What the pipeline itself sees of its writes."""
        iterations = self._place.order.iterations
        self.around = self.around.with_writes(decision, iterations.reduced if iterations is not None else ())

    def for_hook(self, names: dict[str, Any]) -> PipelineRun:
        """For a hook, which runs even when the time of the step run is over (POL-13); `names` are its own."""
        run = PipelineRun(self._place, with_names(self.around, **names) if names else self.around)
        run._expiries = {}
        return run

    async def judged(self, run: TaskContext) -> TaskProcessed:
        """The task run to its outcome, and what its policy makes of that."""
        task, position = run.task, run.position
        around, prepared, outcome = await self.outcome(run)
        if not self._deferred:
            outcome = await conforming(task.kind, prepared, outcome, self._place.control_plane.schema)
        decision = self._judge(
            PolicyRun(
                task=task,
                following=run.following,
                position=position,
                task_run_id=run.run_id,
                outcome=outcome,
                scope=_NOBODYS if task.policy is None else task_scope(around, position, task, outcome=outcome),
                now=outcome.meta.finished_at,
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

    async def outcome(self, run: TaskContext) -> tuple[PipelineScope, Prepared, Outcome]:
        """The outcome of one task run, and what its policy may read besides."""
        place, around, prepared, task, position = self._place, self.around, Prepared(), run.task, run.position
        now = place.clock.now()
        try:
            around = inside(task, self._named(await self._with_keychain(task), position), position, now=now)
            names = ToolNames(around, position, task)
            # The thread only reads what nobody changes meanwhile. Not for every task: it takes 0.2 ms.
            if place.facts.has_loops(task):
                prepared = await asyncio.to_thread(self._prepared, run, names, now)
            else:
                prepared = self._prepared(run, names, now)
            tool = place.tools.tool(task.kind)
            credentials = await place.safe.credentials(prepared.inputs) if prepared.inputs else no_credentials
        except (TemplateError, ToolError) as problem:  # in an input: an ordinary error outcome (TPL-09)
            self._tell_start({})
            return around, prepared, run.not_run(now, problem)
        self._tell_start(prepared.inputs)
        # Only for the first task after the order was taken up: the others begin under this lease.
        interrupted, self._interrupted = self._interrupted, False
        if self.once or prepared.spec.get("on_lost") == "fail":
            if interrupted:
                return around, prepared, run.lost(now)
            await place.flush()  # a task that must not be repeated is known to have begun before it begins
        self._deferred = bool(prepared.spec.get("async")) and task.kind != NOOP
        if self._deferred and task.kind != PLAYBOOK:  # a playbook is begun here, and waited for beside (O-08)
            return around, prepared, run.accepted(now)
        if task.kind == NOOP:  # over before anybody could be told, or its time
            context = run.for_tool(prepared.spec, names, credentials)
            return around, prepared, await self._attempt(tool, prepared, context)
        crash_point("worker.before_tool", place.order.step)
        output = run.live_output()
        context = run.for_tool(prepared.spec, names, credentials, output)
        try:
            async with self._told_soon(), alive(self._expiries, place.clock.now()):
                outcome = await self._attempt(tool, prepared, context)
        finally:
            if output is not None:
                output.end()
        crash_point("worker.after_effect", place.order.step)
        return around, prepared, outcome

    def _attempt(self, tool: Tool, prepared: Prepared, context: ToolContext) -> Awaitable[Outcome]:
        place = self._place
        return attempt(
            tool,
            prepared.inputs,
            context,
            clock=place.clock,
            sleep=place.sleep,
            trace_id=place.order.trace_id,
            # Right before each try, not only at the start: a machine that slept between two tries has lost its lease.
            ready=place.confirm_lease,
        )

    def _prepared(self, run: TaskContext, names: ToolNames, now: float) -> Prepared:
        """The task's inputs and spec. TemplateError or ToolError where there are none."""
        place, task, over = self._place, run.task, self._over(run.position)
        plain = place.facts.plain_inputs(task, place.tools)
        if plain is not None and not over:
            # Copies: a tool owns its inputs and may change them, and these are kept for the next attempt.
            return Prepared(inputs=plain.inputs.copy(), spec=plain.spec.copy())
        bound = place.tools.bound_inputs(task.kind)
        secrets = looked_up_names(place.step, run.position) if takes_sql(task, bound) else ()
        return prepare(task, names.scope, now=now, bound=bound, over=over, secrets=secrets)

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
