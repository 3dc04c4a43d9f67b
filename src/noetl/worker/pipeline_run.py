"""One run of a pipeline: of a step run, or of one iteration of a loop (PIPE-01).

The shell around the pure pipeline: it runs tools, waits for delays and records what happened. A task's
`task.processed` is stored before the next task starts, except for noop. Also hooks: tasks before a task's tool, after
its directive is chosen, and whenever the task is left (POL-13, O-31).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.pipeline.policy import PolicyRun, judge
from noetl.engine.pipeline.preparation import NOOP, Prepared, keeps_prev, prepare, takes_sql, with_reference_args
from noetl.engine.pipeline.progress import budget_error, pipeline_end, position_after, task_run_id
from noetl.engine.pipeline.scopes import PipelineScope, outcome_names, task_scope
from noetl.engine.v2_case.port import input_names, with_names
from noetl.events.orders import Position, SideRunOrder
from noetl.events.outcomes import Error, Outcome, TaskResult
from noetl.events.steps import CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import Decided, HookFailed, TaskProcessed, TaskStarted
from noetl.net.task import Directive, Task
from noetl.templates.scope import Scope
from noetl.tools.contract import Tool, ToolContext
from noetl.worker.attempt import attempt, checked_outcome, with_output
from noetl.worker.order_context import PLAYBOOK, OrderContext, alive
from noetl.worker.reports import IterationStopped
from noetl.worker.secret_store import Credentials, looked_up_names, no_credentials, position_with_secrets
from noetl.worker.task_context import TaskContext, ToolNames

Ended = StepDone | StepFailed | CaseWaiting

_EMPTY_SCOPE = Scope({})  # for tasks without a policy

# Most tools end sooner, so that their start and their end are one report.
RIDE_S = 0.05  # how long an event that no caller waits for may stay unsent (design.md §3)


class PipelineRun:
    """`around` changes with the writes of the pipeline. `interrupted`: its first task had been started under an earlier
    lease. Raises `Expired` if the step run has expired, `LeaseLost` if another worker has the order."""

    def __init__(self, context: OrderContext, around: PipelineScope, *, interrupted: bool = False) -> None:
        self._context, self.around = context, around
        self._path = around.iteration.path if around.iteration is not None else ()
        self._interrupted = interrupted
        self._starting: TaskStarted | None = None
        self._deferred = False  # the current task was accepted, and runs as a side run (TOOL-12)
        self._expiries = context.order.expiries
        self.once = False
        self.calls_as: str | None = None
        self.position: Position | None = None  # the last one

    async def to_end(self, position: Position) -> Ended:
        """Run from `position` to the end, and return how it ended."""
        context = self._context
        try:
            if position.results:  # else it is at its first task
                position = await position_with_secrets(context.step, position, self._secrets_result)
        except (TemplateError, ToolError) as problem:
            error = Error(kind=problem.kind, message=problem.message)
            return context.writer.ended(StepFailed(error=error))
        while position.task is not None:
            if error_ := budget_error(position, context.facts.max_task_runs):
                return context.writer.ended(StepFailed(error=error_))
            if position.not_before or context.journal.paused:
                await self._wait(position)
            run = self._task_run_at(position)
            processed = await (with_hooks(self, run) if has_hooks(run.task) else self.run_task(run))
            # `recorded` is for the log, with secrets masked. `own` still has them: the next task of this pipeline may
            # need a secret that the task before it looked up.
            recorded, own = context.writer.processed(processed)
            at = context.journal.add(recorded)
            self._write(recorded.decision)
            position = self.position = position_after(position, own, at)
            if (end := self._ending(position, own.decision)) is not None:
                return context.writer.ended(end)
            # A noop has no effect, so it can be run again after a crash.
            if run.task.kind != NOOP:
                await context.flush()  # stored before the next task starts
                if context.journal.stopped and self._path in context.journal.stopped:
                    raise IterationStopped
        return context.writer.ended(self._end(position))

    async def _wait(self, position: Position) -> None:
        """Wait for the delay of a retry, and until the execution is not paused."""
        context, now = self._context, self._context.clock.now()
        if position.not_before > now:
            async with alive(context.order.expiries, now):
                await context.sleep(position.not_before - now)
        if context.journal.paused:
            async with alive(context.order.expiries, now):
                await context.until_resumed()

    def _task_run_at(self, position: Position) -> TaskContext:
        """The run of the task at `position`. Its start is recorded."""
        task, following = self._task(position)
        run = self.task_run(task, position, following=following)
        if self.around.vars_in_ctx:
            self._starting = run.started()  # v2-case records the rendered args with it (V2C-26)
        else:
            self._context.journal.add(run.started())
        self._deferred = False
        return run

    async def _secrets_result(self, task: Task, position: Position) -> Any:
        """The result of a `secrets` task, without recording that it ran again."""
        context, now = self._context, self._context.clock.now()
        around = with_reference_args(task, await self._with_keychain(task), position, now=now)
        names = ToolNames(around, position, task)
        prepared = prepare(task, names.scope, now=now, bound=context.tools.bound_inputs(task.kind))
        credentials = await context.secrets.credentials(prepared.inputs)
        tool_context = self.task_run(task, position).for_tool(prepared.spec, names, credentials)
        return (await context.tools.tool(task.kind).run(prepared.inputs, tool_context)).result

    async def _with_keychain(self, task: Task) -> PipelineScope:
        """The scope with the keychain entries that the task reads."""
        context, reads = self._context, self._context.facts.keychain_reads(task)
        return await context.secrets.scope_with_secrets(reads, self.around) if reads else self.around

    def task_run(
        self, task: Task, position: Position, run_id: str | None = None, *, following: str | None = None
    ) -> TaskContext:
        run_id = run_id or task_run_id(self._context.order.step_run_id, position, self._path)
        return TaskContext(
            self._context, task, position, run_id, self._path, following=following, calls_as=self.calls_as
        )

    # overridden by case runs

    def _task(self, position: Position) -> tuple[Task, str | None]:
        """The task at the position, and the name of the next one."""
        assert position.task is not None
        return self._context.task(position.task)

    def _scope_with_names(self, around: PipelineScope, position: Position) -> PipelineScope:
        """The scope with names that only this task has."""
        return around

    def _input_overrides(self, position: Position) -> dict[str, Any] | None:
        """Inputs that override those of the task."""
        return None

    def _judge(self, run: PolicyRun) -> Decided:
        return judge(run)

    def _end(self, position: Position) -> Ended:
        return StepDone(result=position.prev or TaskResult())

    def _ending(self, position: Position, decision: Decided) -> Ended | None:
        return pipeline_end(position, decision)

    def _write(self, decision: Decided) -> None:
        """Apply the writes to the scope of this pipeline."""
        iterations = self._context.order.iterations
        self.around = self.around.with_writes(decision, iterations.reduced if iterations is not None else ())

    def for_hook(self, names: dict[str, Any]) -> PipelineRun:
        """A pipeline for hooks, which run even after the step run has expired (POL-13); `names` are theirs."""
        run = PipelineRun(self._context, with_names(self.around, **names) if names else self.around)
        run._expiries = {}
        return run

    async def run_task(self, run: TaskContext) -> TaskProcessed:
        """Run the task to its outcome, and apply its policy."""
        task, position = run.task, run.position
        around, prepared, outcome = await self.outcome(run)
        # A task that runs on as a side run has no result yet that could break its schema.
        if not self._deferred:
            outcome = await checked_outcome(task.kind, prepared, outcome, self._context.control_plane.schema)
        # Without a policy no template is evaluated, so no scope is built for it.
        decision = self._judge(
            PolicyRun(
                task=task,
                following=run.following,
                position=position,
                task_run_id=run.run_id,
                outcome=outcome,
                scope=_EMPTY_SCOPE if task.policy is None else task_scope(around, position, task, outcome=outcome),
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
            worker_id=self._context.worker_id,
            deferred=self._deferred and outcome.ok,
            origin=task.origin,
        )

    async def outcome(self, run: TaskContext) -> tuple[PipelineScope, Prepared, Outcome]:
        """The outcome of one task run, with the scope and the inputs that its policy may read."""
        context, around, prepared, task, position = self._context, self.around, Prepared(), run.task, run.position
        now = context.clock.now()
        try:
            around = with_reference_args(
                task, self._scope_with_names(await self._with_keychain(task), position), position, now=now
            )
            names = ToolNames(around, position, task)
            # In a thread, which only reads data that does not change meanwhile. Not for every task: it takes 0.2 ms.
            if context.facts.has_loops(task):
                prepared = await asyncio.to_thread(self._prepare_task, run, names, now)
            else:
                prepared = self._prepare_task(run, names, now)
            tool = context.tools.tool(task.kind)
            credentials = await context.secrets.credentials(prepared.inputs) if prepared.inputs else no_credentials
        except (TemplateError, ToolError) as problem:  # in an input: an ordinary error outcome (TPL-09)
            self._record_start({})
            return around, prepared, run.not_run(now, problem)
        self._record_start(prepared.inputs)
        # Only for the first task of the order: the others begin under this lease.
        interrupted, self._interrupted = self._interrupted, False
        if self.once or prepared.spec.get("on_lost") == "fail":
            if interrupted:
                return around, prepared, run.lost(now)
            await context.flush()  # the start of a task that must not be repeated is stored before it begins
        self._deferred = bool(prepared.spec.get("async")) and task.kind != NOOP
        if self._deferred and task.kind != PLAYBOOK:  # a playbook is started here, and a side run waits for it (O-08)
            return around, prepared, run.accepted(now)
        return around, prepared, await self._run_tool(run, tool, prepared, names, credentials)

    async def _run_tool(
        self, run: TaskContext, tool: Tool, prepared: Prepared, names: ToolNames, credentials: Credentials
    ) -> Outcome:
        """The outcome of the tool, within the lifetime of the step run, with all that it has printed."""
        context = self._context
        if run.task.kind == NOOP:  # it ends at once: no timeout and no early report
            return await self._attempt(tool, prepared, run.for_tool(prepared.spec, names, credentials))
        crash_point("worker.before_tool", context.order.step)
        output = run.output()
        tool_context = run.for_tool(prepared.spec, names, credentials, output)
        try:
            async with self._report_while_running(), alive(self._expiries, context.clock.now()):
                outcome = await self._attempt(tool, prepared, tool_context)
        finally:
            output.end()
        if outcome.error is not None and outcome.meta.stdout is None:  # the tool was stopped, or has lost its program
            outcome = with_output(outcome, output.printed())
        crash_point("worker.after_effect", context.order.step)
        return outcome

    def _attempt(self, tool: Tool, prepared: Prepared, tool_context: ToolContext) -> Awaitable[Outcome]:
        context = self._context
        return attempt(
            tool,
            prepared.inputs,
            tool_context,
            clock=context.clock,
            sleep=context.sleep,
            trace_id=context.order.trace_id,
            # Before each try, not only at the start: a machine that slept between two tries has lost its lease.
            ready=context.confirm_lease,
        )

    def _prepare_task(self, run: TaskContext, names: ToolNames, now: float) -> Prepared:
        """The task's rendered inputs and spec. Raises TemplateError or ToolError."""
        context, task, over = self._context, run.task, self._input_overrides(run.position)
        plain = context.facts.plain_inputs(task, context.tools)
        if plain is not None and not over:
            # Copies: a tool owns its inputs and may change them, and these are cached for the next attempt.
            return Prepared(inputs=plain.inputs.copy(), spec=plain.spec.copy())
        bound = context.tools.bound_inputs(task.kind)
        secrets = looked_up_names(context.step, run.position) if takes_sql(task, bound) else ()
        return prepare(task, names.scope, now=now, bound=bound, over=over, secrets=secrets)

    def _record_start(self, inputs: dict[str, Any]) -> None:
        if self._starting is not None:
            self._context.journal.add(self._context.writer.started(self._starting, inputs.get("args")))
            self._starting = None

    @asynccontextmanager
    async def _report_while_running(self) -> AsyncIterator[None]:
        """Send unsent entries if the tool runs longer than a moment; most end before."""
        flushing: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            RIDE_S, lambda: flushing.append(asyncio.ensure_future(self._context.flush()))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task_ in flushing:
                await task_


class SideRunPipeline(PipelineRun):
    """One side run: a pipeline that ends when its tasks have ended. `once`: the start of a task is stored before it
    begins, so that no worker begins it again (SAGA-03)."""

    def __init__(
        self, context: OrderContext, around: PipelineScope, side_run: SideRunOrder, *, interrupted: bool
    ) -> None:
        super().__init__(context, around, interrupted=interrupted)
        self.once, self.calls_as = side_run.once, side_run.task_run_id

    def _scope_with_names(self, around: PipelineScope, position: Position) -> PipelineScope:
        return around if position.case is None else input_names(self._context.step, around, position)


def has_hooks(task: Task) -> bool:
    policy = task.policy
    return policy is not None and bool(policy.before or policy.after or policy.finally_)


async def with_hooks(pipeline: PipelineRun, run: TaskContext) -> TaskProcessed:
    """Run the task with its hooks. A retry does not leave the task, so `finally` runs after the last attempt."""
    policy = run.task.policy
    assert policy is not None
    hooks = _Hooks(pipeline, run)
    processed: TaskProcessed | None = None
    try:
        await hooks.each("before", policy.before)
        processed = await pipeline.run_task(run.at(hooks.position))
        hooks.outcome = processed.outcome
        await hooks.each("after", policy.after)
        return processed
    finally:
        # None: the task was cancelled or has expired. `finally` runs then, too.
        if processed is None or processed.decision.do != Directive.RETRY:
            await hooks.each("finally", policy.finally_)


class _Hooks:
    """The hooks of one task run. They change neither scope nor directive. `position` has their results, which only this
    task run reads; a hook that fails is reported as `hook.failed`."""

    def __init__(self, pipeline: PipelineRun, run: TaskContext) -> None:
        self._pipeline, self._run = pipeline, run
        self.position = run.position
        self.outcome: Outcome | None = None

    async def each(self, phase: str, hooks: tuple[Task, ...]) -> None:
        for index, hook in enumerate(hooks):
            names = {} if self.outcome is None else {"outcome": outcome_names(self.outcome, self._pipeline.around.load)}
            beside = self._pipeline.for_hook(names)
            own_id = derived(self._run.run_id, phase, index)
            _, _, outcome = await beside.outcome(beside.task_run(hook, self.position, own_id))
            results = {**self.position.results, hook.name: outcome.as_result()}
            self.position = msgspec.structs.replace(self.position, results=results)
            if outcome.error is not None:
                self._run.remark(HookFailed, hook=hook.name, phase=phase, error=outcome.error)
