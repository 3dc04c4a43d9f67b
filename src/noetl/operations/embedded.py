"""Embedded runs: store, control plane and worker in one process, for `noetl run`, `noetl.run()` and pytest (WRK-08).

An embedded run drives its own execution with its children, and nothing else. `resume` continues an interrupted one.
`driving` drives many executions side by side.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.clock import Clock, SystemClock
from noetl.base.errors import PlaybookWarning, first_error
from noetl.base.ids import uuid7
from noetl.control.assembly import BackgroundJobs, assemble
from noetl.control.claiming.orders import check_runnable
from noetl.control.commit.effects import Listeners, Stored, Watch
from noetl.control.executions import Executions
from noetl.control.nested.calls import StoreLibrary
from noetl.control.outside.requests import command_for
from noetl.control.secrets.release import SecretRelease
from noetl.engine.execution import Execution
from noetl.engine.lifecycle import check_required_inputs, final_result
from noetl.engine.scopes import payload_of
from noetl.events.executions import Final, RerunState
from noetl.events.large_values import Load
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.language.checking import Checked, checked_playbook
from noetl.language.checking import compiled as compiled
from noetl.net.net import Net
from noetl.store.contract import Commit, Store
from noetl.store.installation import CatalogRow
from noetl.store.open_store import MEMORY, open_store
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Permissions, Registry, allowed_kinds, denied_kinds
from noetl.worker.attempt import Sleep
from noetl.worker.identity import is_gone, own_worker_id
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import SLOTS, Worker

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `result` is the payload of its last step (O-08)."""

    execution_id: str
    status: Final
    result: Any = None
    error: Error | None = None
    ctx: dict[str, Any] = {}
    events: int = 0
    # The duration of the workflow, without the time for checking and for waiting to be admitted.
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status is Final.COMPLETED


def run(
    playbook: str | Path,
    payload: dict[str, Any] | None = None,
    *,
    db: str | Path | None = None,
    allow: Collection[str] = (),
) -> RunResult:
    """Run a playbook, given as a path or as its text, to its end. See `arun`."""
    return asyncio.run(arun(playbook, payload, db=db, allow=allow))


async def arun(
    playbook: str | Path,
    payload: dict[str, Any] | None = None,
    *,
    db: str | Path | None = None,
    allow: Collection[str] = (),
) -> RunResult:
    """Check the playbook, run it in this process, and return its result.

    `db` is the file of the store, by default that of the user; ":memory:" stores nothing. `allow` turns on tool kinds
    that are off by default (shell, script). PlaybookError for a playbook with errors, RefusedError for one that cannot
    run here. A run that fails is a result, not an exception. Warnings of `noetl check` become a PlaybookWarning.
    """
    _warn(checked_playbook(playbook))
    async with driving(db, tools=tools_here(allow)) as driver:
        result = await driver.run(playbook, payload)
        await driver.drained()
        return result


def _warn(checked: Checked) -> None:
    for diagnostic in checked.diagnostics:
        if diagnostic.code[0] == "W":
            hint = f" ({diagnostic.hint})" if diagnostic.hint else ""
            text = f"{checked.source.name}:{diagnostic.line}: {diagnostic.code}: {diagnostic.message}{hint}"
            # Level 3 is the line that called `run` or `arun`.
            warnings.warn(text, PlaybookWarning, stacklevel=3)


def tools_here(allow: Collection[str] = (), deny: Collection[str] = (), sandbox: bool = False) -> Registry:
    """The tools of an embedded run. They may read the working folder, since the author runs the command (design.md §7).
    Kinds in `allow` are turned on, those in `deny` off; with `sandbox`, code of the playbook runs in sandboxes only.
    All three add to the settings."""
    from noetl.base.settings import load_settings

    settings = load_settings().settings
    return Registry(
        permissions=Permissions(
            kinds=allowed_kinds((*settings.allow, *allow)),
            denied=denied_kinds((*settings.deny, *deny)),
            data_folders=(str(Path.cwd()), *settings.data_folders),
            provider_stand_ins=settings.provider_stand_ins,
            sandbox=sandbox or settings.sandbox,
        )
    )


async def run_net(
    net: Net,
    *,
    payload: dict[str, Any],
    db: str | Path | None = None,
    execution_id: str | None = None,
    watch: Watch | None = None,
    tools: Registry | None = None,
    clock: Clock | None = None,
    sleep: Sleep = asyncio.sleep,
    keychain: Keychain | None = None,
    origin: Path | None = None,
    carried: RerunState | None = None,
) -> RunResult:
    """Run a compiled playbook that was read from the file `origin`, if any. RefusedError, before anything is stored, if
    it uses a feature that cannot run here. With `carried` it begins at a step, with the state of an earlier run."""
    tools = tools or tools_here()
    check_runnable(net, tools)
    async with driving(db, tools=tools, clock=clock, watch=watch, sleep=sleep, keychain=keychain) as driver:
        # Registered so that nested playbooks and reruns find it by its path.
        if origin is not None:
            await driver.register(net, origin=origin)
        result = await driver.result(await driver.start(net, payload, execution_id=execution_id, carried=carried))
        await driver.drained()
        return result


async def resume(
    execution_id: str,
    *,
    db: str | Path | None = None,
    watch: Watch | None = None,
    tools: Registry | None = None,
) -> RunResult:
    """Continue an execution whose process ended, with its children, and lift a pause. For an execution that is over
    this only returns its result."""
    async with driving(db, tools=tools, watch=watch) as driver:
        await driver.take_up(execution_id)
        await driver.resume(execution_id)
        result = await driver.result(execution_id)
        await driver.drained()
        return result


class Driver:
    """Drives executions of one store side by side in this process. Get one from `driving`."""

    def __init__(
        self,
        executions: Executions,
        library: StoreLibrary,
        tools: Registry,
        clock: Clock,
        background_jobs: BackgroundJobs,
    ) -> None:
        self._executions, self._library, self._tools, self._clock = executions, library, tools, clock
        self.deliveries, self.inbox = background_jobs.deliveries, background_jobs.inbox
        # The net that was last checked to be runnable: many starts of one net are checked once.
        self._runnable: Net | None = None

    async def start(
        self,
        playbook: Net | str | Path,
        payload: dict[str, Any] | None = None,
        *,
        execution_id: str | None = None,
        carried: RerunState | None = None,
    ) -> str:
        """Begin an execution. It is durable when this returns its id. Concurrent starts share one commit."""
        net = playbook if isinstance(playbook, Net) else await self._read(playbook)
        # Compared by identity: comparing two nets by value would cost as much as the check.
        if net is not self._runnable:
            check_runnable(net, self._tools)
            self._runnable = net
        if carried is None:
            check_required_inputs(net, payload or {})
        chosen = execution_id or uuid7(self._clock.now())
        trace_id = chosen.replace("-", "")
        await self._executions.start(
            net, execution_id=chosen, trace_id=trace_id, payload=payload or {}, carried=carried
        )
        return chosen

    async def result(self, execution_id: str) -> RunResult:
        """Wait for the end of an execution and return its result."""
        ended = await self._executions.ended_execution(execution_id)
        run_result = await self._executions.values.read(lambda load: _run_result(ended, load))
        # The result has been read, so the execution need not stay in memory.
        self._executions.release(execution_id)
        # Another process may have ended it; `_release_tools` sees only commits of this one.
        self._tools.release(execution_id)
        return run_result

    async def run(self, playbook: Net | str | Path, payload: dict[str, Any] | None = None) -> RunResult:
        return await self.result(await self.start(playbook, payload))

    async def register(self, playbook: Net | str | Path, *, origin: Path | None = None) -> CatalogRow:
        """Register a playbook in the store's catalogue, where other playbooks find it by its path."""
        if isinstance(playbook, Net):
            return await self._library.register(playbook, source=_text_of(origin), origin=origin)
        is_text = isinstance(playbook, str) and "\n" in playbook
        origin = None if is_text else Path(playbook)
        source = str(playbook) if is_text else _text_of(origin)
        return await self._library.register(compiled(playbook), source=source, origin=origin)

    async def _read(self, playbook: str | Path) -> Net:
        row = await self.register(playbook)
        return await self._executions.net(row.net_hash)

    async def take_up(self, execution_id: str) -> None:
        """Drive an execution of this store whose process has ended, with its children."""
        await self._executions.take_up(execution_id, is_gone=is_gone)

    async def pause(self, execution_id: str, reason: str | None = None) -> ReportResult:
        return await self._control(execution_id, "pause", reason)

    async def resume(self, execution_id: str, reason: str | None = None) -> ReportResult:
        return await self._control(execution_id, "resume", reason)

    async def cancel(self, execution_id: str, reason: str | None = None) -> ReportResult:
        return await self._control(execution_id, "cancel", reason)

    async def _control(self, execution_id: str, action: str, reason: str | None) -> ReportResult:
        command = command_for(action, at=self._clock.now(), reason=reason)
        return await self._executions.control(execution_id, command)

    async def drained(self) -> None:
        """Wait until no nested execution is open, including those that no step waits for."""
        # Ask again after each one: a child may have started children of its own meanwhile.
        while children := self._executions.open_children():
            await self._executions.ended_execution(children[0])


@asynccontextmanager
async def _running_jobs(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the jobs beside the block. If a job fails, the block is cancelled: without the job it could wait forever."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
            yield
            # The block has ended. The jobs never end by themselves, so they are cancelled.
            for task in tasks:
                task.cancel()
    # The task group wraps errors in a group. Callers of `noetl.run` expect the first error itself.
    except BaseExceptionGroup as several:
        raise first_error(several) from None


@asynccontextmanager
async def driving(
    db: str | Path | None = None,
    *,
    tools: Registry | None = None,
    clock: Clock | None = None,
    watch: Watch | None = None,
    stored: tuple[Stored, ...] = (),
    sleep: Sleep = asyncio.sleep,
    keychain: Keychain | None = None,
    slots: int = SLOTS,
) -> AsyncIterator[Driver]:
    """Drive executions of one store while the block runs. `resume` can continue those that have not ended by then.

    `slots` is the number of orders that run at a time; the functions in `stored` are called after every transaction.
    If the worker fails, the block is cancelled with its error.
    """
    tools, clock = tools or tools_here(), clock or SystemClock()
    store, results = await open_store(db)
    dispatch = MemoryWakeups()
    secret_release = SecretRelease(lambda: keychain or _own_keychain(store, clock))
    library = StoreLibrary(store, clock, compiled=compiled, runnable=lambda net: check_runnable(net, tools))
    handle = WorkerHandle(own_worker_id(), dispatch.notify_workers, HeldLeases(clock))
    # Without `sharing`: no other process drives the executions of an embedded run.
    executions, for_workers, background_jobs, *_ = assemble(
        store,
        results,
        dispatch,
        clock,
        listeners=Listeners(
            watch=watch, stored=(*stored, lambda commits: _release_tools(commits, tools)), stop=handle.stop
        ),
        secret_release=secret_release,
        library=library,
        local_worker=handle,
        sleep=sleep,
    )
    worker = Worker(
        for_workers,
        dispatch,
        tools,
        handle,
        clock=clock,
        slots=slots,
        sleep=sleep,
        # Local result files are read while rendering. Only results behind a network are fetched before and settled
        # after a task.
        prepare=for_workers.prepare if results.is_outside else None,
        settle=executions.values.settled if results.is_outside else None,
        mask_of=for_workers.mask,
    )
    try:
        # Other processes can open the same file and send requests through it; a store in memory has no other process.
        shared_as = own_worker_id() if str(db) != MEMORY else None
        async with _running_jobs(worker.serve(), *background_jobs.own(shared_as=shared_as)):
            yield Driver(executions, library, tools, clock, background_jobs)
    finally:
        # The order matters: close transfers first, then the stores that they write to.
        executions.values.close()
        results.close()
        await store.close()


def _text_of(origin: Path | None) -> str | None:
    return origin.read_text("utf-8") if origin is not None else None


def _own_keychain(store: Store, clock: Clock) -> Keychain:
    from noetl.secrets.keychain import open_keychain  # only when a playbook names a secret

    return open_keychain(store.credentials, clock)


def _release_tools(commits: Sequence[Commit], tools: Registry) -> None:
    """Release the tools of executions that these commits end. Nested executions may end without `Driver.result`."""
    for commit in commits:
        if commit.execution.finished_at is not None:
            tools.release(commit.execution.execution_id)


def _run_result(execution: Execution, load: Load) -> RunResult:
    assert execution.lifecycle.status is not None, "only an execution that is over has a result"
    finished = execution.lifecycle.finished_at or 0.0
    started = execution.origin.started_at or finished
    return RunResult(
        execution_id=execution.execution_id,
        status=execution.lifecycle.status,
        result=final_result(execution, lambda result: payload_of(result, load)),
        error=execution.lifecycle.error,
        ctx=execution.variables.ctx,
        events=execution.log.seq,
        duration_s=round(finished - started, 6),
    )
