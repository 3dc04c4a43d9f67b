"""One run of one task: who it is, what its tool is given, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.events.live_output import OutputChunk
from noetl.events.outcomes import Error, Meta, Outcome, Status
from noetl.events.position import Position
from noetl.events.task_notes import Remark
from noetl.events.tasks import KeychainRefreshed, TaskStarted
from noetl.events.traces import traceparent_of
from noetl.net.task import Task
from noetl.templates.scope import Scope
from noetl.tools.contract import UNKNOWN, ToolContext
from noetl.worker.attempt import error_of
from noetl.worker.calls import TaskCalls
from noetl.worker.live_output import TaskOutput
from noetl.worker.order_context import OrderContext
from noetl.worker.secret_store import Credentials

CONTEXT = "context"  # unless the author has something of that name: all of it as one value (O-11)


def names_in(scope: Scope) -> Callable[[str], Any]:
    """Bare names for tools that take variables: resolved as templates resolve them, given as plain data (TPL-06)."""

    def name(wanted: str) -> Any:
        try:
            value = scope.lookup(wanted)
        except KeyError:
            return scope.context() if wanted == CONTEXT else UNKNOWN
        return value.value() if hasattr(value, "lookup") else value

    return name


class TaskRun:
    """`path` is where in a loop it runs; `calls_as` is the task run whose playbooks it calls, if not its own."""

    __slots__ = ("_path", "_place", "calls_as", "position", "run_id", "task")

    def __init__(
        self,
        place: OrderContext,
        task: Task,
        position: Position,
        run_id: str,
        path: tuple[int, ...],
        calls_as: str | None = None,
    ) -> None:
        self._place, self._path = place, path
        self.task, self.position, self.run_id, self.calls_as = task, position, run_id, calls_as

    def at(self, position: Position) -> TaskRun:
        """The same run, seen from where more is known."""
        return TaskRun(self._place, self.task, position, self.run_id, self._path, self.calls_as)

    def started(self) -> TaskStarted:
        return TaskStarted(
            task=self.task.name,
            kind=self.task.kind,
            visit=self.position.visit,
            attempt=self.position.attempt,
            task_run_id=self.run_id,
            path=self._path,
            worker_id=self._place.worker_id,
            origin=self.task.origin,
        )

    def accepted(self, since: float) -> Outcome:
        """The task runs beside its pipeline, which goes on with a reference to it (TOOL-12)."""
        result = {"task_run_id": self.run_id, "status": "running"}
        return Outcome(status=Status.SUCCESS, result=result, meta=self._meta(since), helpers=self._helpers())

    def not_run(self, since: float, problem: TemplateError | ToolError) -> Outcome:
        """What kept its tool from being run."""
        if isinstance(problem, ToolError):
            error = error_of(problem)
        else:
            error = Error(kind=problem.kind, message=f'inputs of task "{self.task.name}": {problem}')
        return Outcome(status=Status.ERROR, error=error, meta=self._meta(since), helpers=self._helpers())

    def lost(self, since: float) -> Outcome:
        """It had begun under an earlier lease, and must not be repeated."""
        message = f'task "{self.task.name}" was interrupted with its worker, and on_lost says not to repeat it'
        return self.not_run(since, ToolError("lease.lost", message, unknown=True))

    def live_output(self) -> TaskOutput | None:
        """What takes the lines it prints, where somebody can look while it runs."""
        place, order = self._place, self._place.order
        if place.output is None:
            return None
        of = OutputChunk(
            execution_id=order.execution_id,
            order_id=order.order_id,
            lease_epoch=order.lease_epoch,
            task=self.task.name,
            task_run_id=self.run_id,
            path=self._path,
            attempt=self.position.attempt,
        )
        return place.output.output(of, place.mask)

    def context(
        self, spec: dict[str, Any], scope: Scope, credentials: Credentials, output: TaskOutput | None = None
    ) -> ToolContext:
        """What its tool knows of where it runs."""
        place, order, task = self._place, self._place.order, self.task
        where = [order.execution_id, order.step_run_id, *map(str, self._path), task.name, str(self.position.visit)]
        return ToolContext(
            execution_id=order.execution_id,
            step=order.step,
            task=task.name,
            attempt=self.position.attempt,
            task_run_id=self.run_id,
            idempotency_key="/".join(where),
            spec=spec,
            name=names_in(scope),
            resolve=credentials,
            secrets=place.safe.secret_source(self._tell_refreshed),
            data_folders=place.tools.permissions.data_folders,
            sandbox=place.tools.permissions.sandbox,
            keep=place.writer.keep,
            load=place.control_plane.load,
            keep_table=lambda file: place.control_plane.keep_table(file, order.execution_id),
            fetch_table=place.control_plane.fetch_table,
            secret_forms=lambda: place.mask.redactor.forms,
            tool=place.tools.tool,
            playbooks=TaskCalls(
                order,
                self.calls_as or self.run_id,
                place.control_plane,
                place.lend,
                place.writer.holds_secret,
                worker_id=place.worker_id,
                flush=place.flush,
            ),
            masked=place.writer.text,
            now=place.clock.now,
            allowed=place.tools.permissions.kinds,
            provider_stand_ins=place.tools.permissions.provider_stand_ins,
            policy=place.net.executor.tool_policies.get(task.kind, {}),
            remark=self.remark,
            traceparent=traceparent_of(order.trace_id, self.run_id) if order.traced else None,
            addresses=place.tools.addresses,
            unwanted=place.unwanted,
            printed=output.write if output is not None else None,
        )

    def remark(self, make: Callable[..., Remark], **told: Any) -> None:
        """Tell something of it besides its start and its outcome."""
        self._place.journal.add(self._place.writer.masked(make(task=self.task.name, **told, **self._whereabouts())))

    def _tell_refreshed(self, name: str) -> None:
        self._place.journal.add(KeychainRefreshed(name=name, **self._whereabouts()))

    def _whereabouts(self) -> dict[str, Any]:
        visit, attempt = self.position.visit, self.position.attempt
        return {"visit": visit, "attempt": attempt, "task_run_id": self.run_id, "path": self._path}

    def _meta(self, since: float) -> Meta:
        return Meta(
            attempt=self.position.attempt,
            started_at=since,
            finished_at=self._place.clock.now(),
            trace_id=self._place.order.trace_id,
            task_run_id=self.run_id,
        )

    def _helpers(self) -> dict[str, dict[str, Any]]:
        return self._place.tools.helpers(self.task.kind)
