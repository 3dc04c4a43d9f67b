"""Embedded: store, orchestrator and worker in one process, for `noetl run`, `noetl.run()` and pytest (WRK-08).

An embedded run drives its own execution and nothing else. An interrupted one is taken up by `resume`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.clock import Clock, SystemClock
from noetl.dispatch.memory import MemoryDispatch
from noetl.engine.coverage import not_runnable
from noetl.engine.execution import Execution
from noetl.engine.finishing import final_result
from noetl.engine.scopes import payload_of
from noetl.errors import NoetlError, PlaybookError, RefusedError
from noetl.ids import uuid7
from noetl.net.net import Net
from noetl.orchestrator.conduct import Conductor, Watch
from noetl.records.events import Final
from noetl.records.outcomes import Error
from noetl.settings import default_db, results_folder
from noetl.store.contract import Results, Store
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.identity import is_gone, own_worker_id
from noetl.worker.service import Worker

MEMORY = ":memory:"


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `result` is the payload of its last step (O-08)."""

    execution_id: str
    status: Final
    result: Any = None
    error: Error | None = None
    ctx: dict[str, Any] = {}
    events: int = 0
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status is Final.COMPLETED


def run(playbook: str | Path, payload: dict[str, Any] | None = None, *, db: str | Path | None = None) -> RunResult:
    """Run a playbook, given as a path or as its text, to its end. See `arun`."""
    return asyncio.run(arun(playbook, payload, db=db))


async def arun(
    playbook: str | Path, payload: dict[str, Any] | None = None, *, db: str | Path | None = None
) -> RunResult:
    """Check the playbook, run it here, and give its result.

    `db` is the store's file; without one, the user's own is used; ":memory:" keeps nothing. PlaybookError when it has
    errors, RefusedError when it cannot be run here; a run that fails is a result, not an exception.
    """
    return await run_net(compiled(playbook), payload=payload or {}, db=db)


def compiled(playbook: str | Path) -> Net:
    """The net of a playbook without errors."""
    from noetl.checking import check
    from noetl.source import Source
    from noetl.tools.kinds import load_kinds

    is_text = isinstance(playbook, str) and "\n" in playbook
    source = Source("<text>", str(playbook)) if is_text else Source(str(playbook), Path(playbook).read_text("utf-8"))
    checked = check(source, kinds=load_kinds(), proofs=False)
    if checked.net is None:
        errors = [f"{source.name}:{d.line}: {d.code}: {d.message}" for d in checked.diagnostics if d.code[0] == "E"]
        raise PlaybookError("this playbook has errors:\n" + "\n".join(errors))
    return checked.net


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
) -> RunResult:
    """Run a compiled playbook. Refused before anything is recorded when it uses what cannot be run yet."""
    tools, clock = tools or Registry(), clock or SystemClock()
    if missing := not_runnable(net, tools.runs):
        raise RefusedError(f"this playbook uses {', '.join(missing)}, which this version cannot run yet")
    execution_id = execution_id or uuid7(clock.now())
    async with _driving(db, tools, clock, watch, sleep) as conductor:
        await conductor.start(net, execution_id=execution_id, trace_id=execution_id.replace("-", ""), payload=payload)
        return _told(await conductor.ended(execution_id), conductor)


async def resume(execution_id: str, *, db: str | Path | None = None, watch: Watch | None = None) -> RunResult:
    """Take up an execution whose process ended; one that is over is only told."""
    async with _driving(db, Registry(), SystemClock(), watch) as conductor:
        await conductor.take_up(execution_id, is_gone=is_gone)
        return _told(await conductor.ended(execution_id), conductor)


@asynccontextmanager
async def _driving(
    db: str | Path | None, tools: Registry, clock: Clock, watch: Watch | None, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Conductor]:
    """A conductor with a worker beside it. If the worker breaks, so does whoever waits inside."""
    store, results = _opened(db)
    dispatch = MemoryDispatch()
    conductor = Conductor(store, results, dispatch, clock, watch=watch)
    worker = Worker(conductor, dispatch, tools, clock=clock, worker_id=own_worker_id(), sleep=sleep)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(worker.serve())
            yield conductor
            serving.cancel()
    except BaseExceptionGroup as several:
        raise _first(several) from None
    finally:
        await store.close()


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one that says most: an error of ours if there is one; the others are what it broke on its way."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [several]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, NoetlError)), leaves[0])


def _opened(db: str | Path | None) -> tuple[Store, Results]:
    if str(db) == MEMORY:
        from noetl.store.memory import MemoryStore
        from noetl.store.results import MemoryResults

        return MemoryStore(), MemoryResults()
    from noetl.store.results import FileResults
    from noetl.store.sqlite.store import SqliteStore

    path = Path(db) if db is not None else default_db()
    return SqliteStore.open(path), FileResults(results_folder(path))


def _told(execution: Execution, conductor: Conductor) -> RunResult:
    assert execution.status is not None, "only an execution that is over is told"
    started, finished = execution.started_at or 0.0, execution.finished_at or 0.0
    return RunResult(
        execution_id=execution.execution_id,
        status=execution.status,
        result=final_result(execution, lambda result: payload_of(result, conductor.load)),
        error=execution.error,
        ctx=execution.ctx,
        events=execution.seq,
        duration_s=round(finished - started, 6),
    )
