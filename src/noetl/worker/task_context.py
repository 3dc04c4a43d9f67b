"""The context of one task run: its identity, the context of its tool, and its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.scopes import PipelineScope, task_scope
from noetl.events.envelope import traceparent_of
from noetl.events.orders import OutputChunk, Position
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.events.tasks import KeychainRefreshed, Remark, TaskStarted
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.tools.contract import UNKNOWN, LiveReports, ResultsAccess, TaskRunIdentity, ToolContext, ToolPermissions
from noetl.worker.attempt import error_of
from noetl.worker.live_output import TaskOutput
from noetl.worker.order_context import OrderContext, TaskCalls
from noetl.worker.secret_store import Credentials

CONTEXT = "context"  # the whole context as one value, unless the playbook defines this name itself (O-11)


class ToolNames:
    """Bare names for tools that take variables: resolved as templates resolve them, returned as plain data (TPL-06).
    The scope is made on first use: few tools need it."""

    __slots__ = ("_around", "_position", "_scope", "_task")

    def __init__(self, around: PipelineScope, position: Position, task: Task) -> None:
        self._around, self._position, self._task = around, position, task
        self._scope: Scope | None = None

    @property
    def scope(self) -> Scope:
        """The scope in which the task's inputs are rendered."""
        if self._scope is None:
            self._scope = task_scope(self._around, self._position, self._task)
        return self._scope

    def __call__(self, wanted: str) -> Any:
        scope = self.scope
        try:
            value = scope.lookup(wanted)
        except KeyError:
            return scope.context() if wanted == CONTEXT else UNKNOWN
        return value.value() if hasattr(value, "lookup") else value


class TaskSecrets:
    """The secrets of one task run (`tools.contract.Secrets`)."""

    __slots__ = ("_recorded", "_run")

    def __init__(self, run: TaskContext) -> None:
        self._run = run
        self._recorded: set[str] = set()

    async def get(self, name: str, *, kind: str = "", lookup: dict[str, Any] | None = None) -> dict[str, Any]:
        return (await self._run.order_context.secrets.look_up(name, kind, lookup or {})).fields

    async def renew(self, name: str) -> None:
        await self._run.order_context.secrets.renew(name)
        # One event for each task run, however often a tool renews: a loop must not fill the log.
        if name not in self._recorded:
            self._recorded.add(name)
            self._run.record_refresh(name)


class TaskContext:
    """One run of a task. `path` is its position in a loop; `following` is the task after it; `calls_as` is the task run
    that its nested playbooks belong to, if not itself."""

    __slots__ = ("_path", "calls_as", "following", "order_context", "position", "run_id", "task")

    def __init__(
        self,
        order_context: OrderContext,
        task: Task,
        position: Position,
        run_id: str,
        path: tuple[int, ...],
        *,
        following: str | None = None,
        calls_as: str | None = None,
    ) -> None:
        self.order_context, self._path, self.following = order_context, path, following
        self.task, self.position, self.run_id, self.calls_as = task, position, run_id, calls_as

    def at(self, position: Position) -> TaskContext:
        """The same run with a newer position."""
        return TaskContext(
            self.order_context,
            self.task,
            position,
            self.run_id,
            self._path,
            following=self.following,
            calls_as=self.calls_as,
        )

    def started(self) -> TaskStarted:
        return TaskStarted(
            task=self.task.name,
            kind=self.task.kind,
            visit=self.position.visit,
            attempt=self.position.attempt,
            task_run_id=self.run_id,
            path=self._path,
            worker_id=self.order_context.worker_id,
            origin=self.task.origin,
        )

    def accepted(self, since: float) -> Outcome:
        """The outcome of an asynchronous task: its pipeline continues with a reference to it (TOOL-12)."""
        result = {"task_run_id": self.run_id, "status": "running"}
        return Outcome(status=Status.SUCCESS, result=result, meta=self._meta(since), helpers=self._helpers())

    def not_run(self, since: float, problem: TemplateError | ToolError) -> Outcome:
        """The outcome of a task whose tool could not be run."""
        if isinstance(problem, ToolError):
            error = error_of(problem)
        else:
            error = Error(kind=problem.kind, message=f'inputs of task "{self.task.name}": {problem}')
        return Outcome(status=Status.ERROR, error=error, meta=self._meta(since), helpers=self._helpers())

    def lost(self, since: float) -> Outcome:
        """The outcome of a task that had begun under an earlier lease and must not be repeated."""
        message = f'task "{self.task.name}" was interrupted with its worker, and on_lost says not to repeat it'
        return self.not_run(since, ToolError("lease.lost", message, unknown=True))

    def output(self) -> TaskOutput:
        """Receives the lines that it prints, and sends them if live output is on."""
        order_context, order = self.order_context, self.order_context.order
        of = OutputChunk(
            execution_id=order.execution_id,
            order_id=order.order_id,
            lease_epoch=order.lease_epoch,
            task=self.task.name,
            task_run_id=self.run_id,
            path=self._path,
            attempt=self.position.attempt,
        )
        if order_context.output is None:
            return TaskOutput(of, order_context.mask)
        return order_context.output.output(of, order_context.mask)

    def for_tool(
        self, spec: dict[str, Any], names: ToolNames, credentials: Credentials, output: TaskOutput | None = None
    ) -> ToolContext:
        """The context of its tool."""
        order_context, order, task = self.order_context, self.order_context.order, self.task
        permissions, tools, writer = order_context.tools.permissions, order_context.tools, order_context.writer
        control_plane = order_context.control_plane
        path = "".join([f"{index}/" for index in self._path])
        return ToolContext(
            task_run=TaskRunIdentity(
                execution_id=order.execution_id,
                step=order.step,
                task=task.name,
                attempt=self.position.attempt,
                task_run_id=self.run_id,
                # The same for every attempt of one visit.
                idempotency_key=f"{order.execution_id}/{order.step_run_id}/{path}{task.name}/{self.position.visit}",
                traceparent=traceparent_of(order.trace_id, self.run_id) if order.traced else None,
            ),
            spec=spec,
            name=names,
            resolve=credentials,
            secrets=TaskSecrets(self),
            permissions=ToolPermissions(
                data_folders=permissions.data_folders,
                sandbox=permissions.sandbox,
                kinds=permissions.kinds,
                provider_stand_ins=permissions.provider_stand_ins,
            ),
            results=ResultsAccess(
                keep=writer.keep,
                load=control_plane.load,
                keep_table=lambda file: control_plane.keep_table(file, order.execution_id),
                fetch_table=control_plane.fetch_table,
            ),
            secret_forms=lambda: order_context.mask.redactor.forms,
            tool=tools.tool,
            playbooks=TaskCalls(order_context, self.calls_as or self.run_id),
            mask=writer.text,
            now=order_context.clock.now,
            policy=order_context.net.executor.tool_policies.get(task.kind, {}),
            addresses=tools.addresses,
            live=LiveReports(
                remark=self.remark,
                write_output=output.write if output is not None else None,
                cleanups=order_context.cleanups,
            ),
        )

    def remark(self, make: Callable[..., Remark], **fields: Any) -> None:
        """Record an event of the task run besides its start and its outcome."""
        # Masked like a result: a remark may repeat what a server answered.
        self.order_context.journal.add(
            self.order_context.writer.masked(make(task=self.task.name, **fields, **self._whereabouts()))
        )

    def record_refresh(self, name: str) -> None:
        self.order_context.journal.add(KeychainRefreshed(name=name, **self._whereabouts()))

    def _whereabouts(self) -> dict[str, Any]:
        visit, attempt = self.position.visit, self.position.attempt
        return {"visit": visit, "attempt": attempt, "task_run_id": self.run_id, "path": self._path}

    def _meta(self, since: float) -> Meta:
        return Meta(
            attempt=self.position.attempt,
            started_at=since,
            finished_at=self.order_context.clock.now(),
            trace_id=self.order_context.order.trace_id,
            task_run_id=self.run_id,
        )

    def _helpers(self) -> dict[str, dict[str, Any]]:
        return self.order_context.tools.helpers(self.task.kind)
