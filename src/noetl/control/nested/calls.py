"""Nested calls: one child execution for one task run, begun once, waited for, with its result (TOOL-11). `StoreLibrary`
finds the playbook of a call by its path (O-17).

Without a version, it looks first among the files beside the playbook that calls it, which its author is editing; then
for the newest version in the catalogue. With a version, in the catalogue only. A playbook found in a file is
registered, so that its execution names a version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from noetl.base.clock import Clock
from noetl.base.errors import PlaybookError, RefusedError, ToolError
from noetl.base.ids import derived
from noetl.control.background.recovery import Recovery
from noetl.control.claiming.orders import needs_of
from noetl.control.commit.decisions import AwaitedChildren
from noetl.control.commit.loaded_executions import LoadedExecution
from noetl.control.executions import Executions
from noetl.control.nested.call_grants import is_at_task_run, refused
from noetl.control.secrets.release import SecretRelease
from noetl.engine.commands import Start
from noetl.engine.execution import Execution
from noetl.engine.lifecycle import final_result, input_refusal
from noetl.engine.scopes import payload_of
from noetl.events.orders import PlaybookCall, PlaybookCallResult
from noetl.events.side_runs import CompensationRegistered
from noetl.net.net import Net, from_json
from noetl.store.contract import Store
from noetl.store.installation import NEWEST, CatalogRow, Registration
from noetl.tools.registry import CALL_NOTHING

FAILED = "playbook.failed"
LEFT = "the step that waited for it has ended"
# The default of executor.spec.policy.limits.max_depth (O-33). Enough for playbooks that people write; a playbook that
# calls itself ends in seconds.
MAX_DEPTH = 16


class Library(Protocol):
    """Finds playbooks by path."""

    async def find(self, path: str, version: str | None, *, beside: str) -> Net:
        """The net of a playbook; `beside` is the hash of the net that calls it. RefusedError says why there is none."""


class NoLibrary:
    async def find(self, path: str, version: str | None, *, beside: str) -> Net:
        raise RefusedError(f'there is no catalogue here to find "{path}" in')


def child_id_of(task_run_id: str) -> str:
    """The id of the child of a task run. It is derived, so a repeated call finds the same child (O-05)."""
    return str(UUID(hex=derived("child", task_run_id)))


class NestedCalls:
    """Starts children for task runs, waits for them and cancels them."""

    def __init__(
        self,
        executions: Executions,
        recovery: Recovery,
        secret_release: SecretRelease,
        awaited: AwaitedChildren,
        library: Library,
    ) -> None:
        self._executions, self._recovery, self._secret_release = executions, recovery, secret_release
        self._awaited, self._library = awaited, library

    async def orphaned_calls(self) -> list[PlaybookCall]:
        """Calls whose step run was ended by another server, which does not know of the child that is awaited here."""
        executions = {run: call.execution_id for run, call in self._awaited}
        ended = await self._recovery.ended_runs(executions) if executions else []
        return [call for run in ended for call in self._awaited.calls_of(run)]

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        """Start the child of a call, or find it, and wait for its end if the call asks for that. ToolError
        `playbook.failed` says why there is no child."""
        parent = await self._executions.execution(call.execution_id)
        try:
            _check_lease(parent.execution, call)
        except ToolError:
            # The worker repeats a call whose answer was lost. If its step run has ended since, no step run will ever
            # wait for the child again.
            is_left = call.wait and call.step_run_id not in parent.execution.runs
            if (
                is_left
                and not self._executions.policy.has_children_in_memory
                and await self._is_left_child(call, parent.execution)
            ):
                await self.give_up(call, LEFT)  # the server that waited for it before is gone
            raise
        _check_kind(parent, call)
        child_id = child_id_of(call.task_run_id)
        if call.compensates is not None and not await self._undoable(call):
            # The child has registered no compensation, so there is nothing to undo.
            return PlaybookCallResult(execution_id=call.compensates, status="completed")
        if not call.wait:
            await self._begin(call, parent, child_id)
            return PlaybookCallResult(execution_id=child_id, status="running")
        # Before the child begins: if the step run ends at this moment, the child must be found and cancelled.
        self._awaited.add(child_id, call)
        try:
            await self._begin(call, parent, child_id)
        except ToolError:
            self._awaited.remove(call.step_run_id, child_id)
            raise
        execution = await self._executions.ended_execution(child_id)
        # Not in a `finally`: when the wait is cancelled, the child is cancelled with its step run, or found again.
        self._awaited.remove(call.step_run_id, child_id)
        self._executions.release(child_id)
        return await self._call_result(execution, call)

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        """Cancel the child of a task run, if there is one."""
        child_id = child_id_of(call.task_run_id)
        self._awaited.remove(call.step_run_id, child_id)
        is_elsewhere = not self._executions.policy.has_children_in_memory
        if self._executions.drives(child_id) or (is_elsewhere and await self._executions.is_known(child_id)):
            await self._executions.cancel(child_id, reason)

    async def abandon(self, call: PlaybookCall, reason: str) -> None:
        """Cancel the child at the request of a remote worker. Nothing happens if the worker has lost its lease: the
        child belongs to its successor. CallRefusedError for a worker that never held the order."""
        loaded = await self._executions.execution(call.execution_id)
        lease = loaded.execution.lease_of(call.order_id)
        # A successor of this worker waits for the same child: the id follows from the task run, not from the lease.
        if lease is None or lease.lease_epoch > call.lease_epoch:
            return
        if (lease.worker_id, lease.lease_epoch) != (call.worker_id, call.lease_epoch):
            raise refused("nothing was given up: the order is held by another worker")
        if not is_at_task_run(call, loaded.plan, loaded.execution):
            raise refused("nothing was given up: the order is not at this task run")
        await self.give_up(call, reason)

    async def _is_left_child(self, call: PlaybookCall, parent: Execution) -> bool:
        """Whether the child was begun by an ended step run of this parent."""
        child_id = child_id_of(call.task_run_id)
        if not await self._executions.is_known(child_id):
            return False
        child = (await self._executions.execution(child_id)).execution
        return (
            child.origin.parent_execution_id == parent.execution_id
            and child.origin.parent_step_run_id not in parent.runs
        )

    async def _begin(self, call: PlaybookCall, parent: LoadedExecution, child_id: str) -> None:
        """Begin the child, unless it exists; an embedded run takes an existing one over."""
        # The call is repeated after a lost answer.
        if self._executions.drives(child_id):
            return
        if await self._executions.is_known(child_id):
            if not self._executions.policy.has_orders_offered:
                # Its driver worked under an earlier lease of this very task, which has ended.
                await self._executions.take_up(child_id, is_gone=lambda owner: True)
            return
        if call.compensates is not None:
            await self._begin_undoing(call, parent, child_id)
            return
        execution = parent.execution
        depth = execution.origin.depth + 1
        if depth > (most := int(parent.plan.net.executor.limits.get("max_depth", MAX_DEPTH))):
            raise _refused(
                f'"{call.path}" would be nested {depth} deep, and executor.spec.policy.limits.max_depth is {most}'
            )
        try:
            net = await self._library.find(call.path, call.version, beside=execution.origin.net_hash)
        except RefusedError as problem:
            raise _refused(str(problem)) from problem
        await self._executions.begin(
            Start(
                net=net,
                execution_id=child_id,
                trace_id=execution.trace_id,
                payload=call.payload,
                parent_execution_id=call.execution_id,
                parent_step_run_id=call.step_run_id,
                depth=depth,
                paused=execution.lifecycle.paused,
                refused=input_refusal(net, call.payload) or await self._secret_release.refusal(net, call.payload),
            )
        )

    async def _undoable(self, call: PlaybookCall) -> tuple[CompensationRegistered, ...]:
        """The compensations that the child has registered and not run itself. ToolError when it is not a child of the
        caller."""
        assert call.compensates is not None
        child = (await self._executions.execution(call.compensates)).execution
        if child.origin.parent_execution_id != call.execution_id:
            raise _refused(f"{call.compensates} is not a child of {call.execution_id}")
        return tuple(child.side_work.saga.registered.values()) if child.side_work.saga is not None else ()

    async def _begin_undoing(self, call: PlaybookCall, parent: LoadedExecution, undoing_id: str) -> None:
        """Begin the execution that compensates a child: of the child's net, with the child's request (design.md §8)."""
        assert call.compensates is not None
        registrations = await self._undoable(call)
        child = await self._executions.execution(call.compensates)
        await self._executions.begin(
            Start(
                net=child.plan.net,
                execution_id=undoing_id,
                trace_id=parent.execution.trace_id,
                payload=child.execution.origin.request,
                parent_execution_id=call.execution_id,
                parent_step_run_id=call.step_run_id,
                depth=child.execution.origin.depth,
                paused=parent.execution.lifecycle.paused,
                compensates=call.compensates,
                registrations=registrations,
            )
        )
        self._executions.release(call.compensates)

    async def _call_result(self, execution: Execution, call: PlaybookCall) -> PlaybookCallResult:
        assert execution.lifecycle.status is not None
        return PlaybookCallResult(
            execution_id=execution.execution_id,
            status=execution.lifecycle.status.value,
            data=await self._data(execution, call.return_step),
            error=execution.failure,
            compensable=execution.side_work.saga is not None and bool(execution.side_work.saga.registered),
        )

    async def _data(self, execution: Execution, return_step: str | None) -> Any:
        read = self._executions.values.read
        if return_step is None:
            return await read(lambda load: final_result(execution, lambda result: payload_of(result, load)))
        net = await self._executions.net(execution.origin.net_hash)
        if all(step.name != return_step for step in net.transitions):
            raise _refused(f'return_step "{return_step}" is not a step of "{execution.origin.path}"')
        result = execution.outputs.results.get(return_step)
        return await read(lambda load: payload_of(result, load)) if result is not None else None


def _check_kind(parent: LoadedExecution, call: PlaybookCall) -> None:
    """ToolError if no task of the order calls a playbook (reliability.md §2.3). Tools that are not built in may call
    one."""
    kinds = needs_of(parent.plan, parent.execution, call.order_id)
    if call.compensates is None and kinds <= CALL_NOTHING:
        raise ToolError(FAILED, f'"{call.path}" was not started: no task of this order calls a playbook')


def _check_lease(execution: Execution, call: PlaybookCall) -> None:
    lease = execution.lease_of(call.order_id)
    if lease is None or (lease.lease_epoch, lease.worker_id) != (call.lease_epoch, call.worker_id):
        raise ToolError("cancelled", f'"{call.path}" was not started: its order is no longer held')


def _refused(message: str) -> ToolError:
    return ToolError(FAILED, message, child_status="refused")


_SUFFIXES = (".yaml", ".yml")
# No `..` and no leading slash can match: a path may come from the data of a run.
_PATH = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")
_FILES = 2000  # files read in one folder tree; a larger one is no folder of playbooks


class StoreLibrary:
    """Playbooks in files and in the catalogue. `compiled` returns the net of a file, `runnable` raises when it cannot
    be run here."""

    def __init__(
        self, store: Store, clock: Clock, *, compiled: Callable[[Path], Net], runnable: Callable[[Net], None]
    ) -> None:
        self._store, self._clock = store, clock
        self._compiled, self._runnable = compiled, runnable

    async def register(self, net: Net, *, source: str | None = None, origin: Path | None = None) -> CatalogRow:
        playbook = Registration.of(net, at=self._clock.now(), source=source, origin=origin)
        return await self._store.catalog.register(playbook)

    async def find(self, path: str, version: str | None, *, beside: str) -> Net:
        """The net of a playbook. RefusedError says where it was searched, or why it cannot be run."""
        version = None if version == NEWEST else version
        net = await self._in_files(path, beside) if version is None else None
        if net is None:
            row = await self._store.catalog.find(path, version)
            if row is None:
                raise RefusedError(_not_found_text(path, version))
            net = from_json(await self._store.net(row.net_hash))
        self._runnable(net)
        return net

    async def _in_files(self, path: str, beside: str) -> Net | None:
        origin = await self._store.catalog.origin(beside)
        if origin is None:
            return None
        caller = from_json(await self._store.net(beside))
        for file in candidates(Path(origin), caller.path, path):
            try:
                net = self._compiled(file)
            except PlaybookError as problem:
                raise RefusedError(f'"{path}" cannot be run: {problem}') from problem
            if net.path == path or _is_at(file, path):
                await self.register(net, source=file.read_text("utf-8"), origin=file)
                return net
        return None


def candidates(origin: Path, caller: str, wanted: str) -> Iterator[Path]:
    """Files that may hold the playbook `wanted`, beside the file `origin` of the playbook `caller`: those named by its
    path, then all that mention it. A path may come from data, so it never leads out of the folder."""
    if not _PATH.fullmatch(wanted):
        return
    roots = dict.fromkeys([_root(origin, caller), origin.parent])
    named = [file for root in roots for suffix in _SUFFIXES if (file := root / f"{wanted}{suffix}").is_file()]
    yield from (file for file in named if file != origin)
    for root in roots:
        for file in islice(_files(root), _FILES):
            if file not in named and file != origin and _mentions(file, wanted):
                yield file


def _is_at(file: Path, wanted: str) -> bool:
    parts = Path(wanted).parts
    return file.with_suffix("").parts[-len(parts) :] == parts


def _root(origin: Path, caller: str) -> Path:
    """The folder at which catalogue paths begin, if the file is where its path says; else its own folder."""
    folder, inner = origin.parent.parts, Path(caller).parts[:-1]
    if inner and folder[-len(inner) :] == inner:
        return Path(*folder[: -len(inner)])
    return origin.parent


def _files(root: Path) -> Iterator[Path]:
    return (file for file in sorted(root.rglob("*")) if file.suffix in _SUFFIXES and file.is_file())


def _mentions(file: Path, wanted: str) -> bool:
    """Whether the text mentions the path at all. Compiling every file would take far longer."""
    try:
        return f"path: {wanted}" in file.read_text("utf-8").replace('"', "").replace("'", "")
    except (OSError, UnicodeDecodeError):
        return False


def _not_found_text(path: str, version: str | None) -> str:
    if version is not None:
        return f'no version {version} of "{path}" is registered here: noetl register FILE'
    return f'no playbook "{path}" beside the one that calls it, nor registered here: noetl register FILE'
