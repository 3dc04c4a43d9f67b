"""Runs that are killed with SIGKILL at random moments and taken up again until they end, and what must hold then.

The victim is killed alone, as the system would do it: that its tools end with it is its own business.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from noetl.cli.queries import INTERRUPTED
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.loops import IterationDone, IterationFailed, LoopStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.operations.embedded import RunResult, resume
from noetl.store.contract import ExecutionRow
from noetl.store.sqlite.history import SqliteHistory
from tests.faults.processes import Ended, begun, ended, noetl

STORE = "s.db"
BLIND = 0.2  # the number of kills before the first output of the process
KILLS = (1, 1, 2, 3)  # in one round

Log = dict[str, list[Event]]  # by execution, the outermost first


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """A playbook to run, and its arguments on the command line."""

    file: str
    arguments: tuple[str, ...] = ()


class Undisturbed(msgspec.Struct, frozen=True):
    """Its end without a kill, and its duration."""

    result: dict[str, Any]
    log: Log
    startup_s: float


class Survived(msgspec.Struct, frozen=True):
    """A run that was killed, with the log as it was after each kill and as it is now."""

    told: dict[str, Any]  # by the process that saw it end
    replayed: RunResult  # from the log alone
    kills: tuple[Log, ...]
    log: Log


def undisturbed(play: Play, folder: Path) -> Undisturbed:
    before = time.monotonic()
    done = noetl("run", play.file, "--db", STORE, "-o", "json", *play.arguments, cwd=folder)
    took_s = time.monotonic() - before
    assert done.code == 0, done.stderr
    view = done.json()
    return Undisturbed(view, log_of(folder), max(took_s - view["duration_s"], 0.1))


def survived(
    play: Play, folder: Path, moments: Random, usual: Undisturbed, *, by: signal.Signals = signal.SIGKILL
) -> Survived:
    """Run it, kill it a few times, and let it end."""
    kills: list[Log] = []
    for _ in range(moments.choice(KILLS)):
        with begun(*_command(play, folder), "-o", "jsonl", cwd=folder) as victim:
            if _outlives(victim, moments, usual):
                break
            victim.send_signal(by)
            ending = ended(victim)
            kills.append(log_of(folder))
            before = kills[-2] if len(kills) > 1 else {}
            assert by is signal.SIGKILL or _is_polite(ending, before, kills[-1]), ending
    done = noetl(*_command(play, folder), "-o", "json", cwd=folder)
    assert done.code == 0, f"{done.stdout}\n{done.stderr}"
    ending = done.json()
    del ending["diagnostics"]  # of the text, not of the run
    replayed = asyncio.run(resume(ending["execution_id"], db=folder / STORE))
    return Survived(ending, replayed, tuple(kills), log_of(folder))


# The message of an interpreter that is interrupted before our code runs; its exit code is 1 then.
_STARTING = ("Fatal Python error: init", "Could not import runpy module")


def _is_polite(ending: Ended, before: Log, log: Log) -> bool:
    """Whether an interrupted run has ended properly; its hint names only a resumable execution."""
    if ending.code == -signal.SIGINT:  # the interpreter itself was still starting, or exiting after all output
        return log == before or PlaybookProcessed.event_type in ending.stdout
    if ending.stderr.startswith(_STARTING):
        return log == before
    hinted = ending.stderr.partition("--resume ")[2].strip()
    unheard = ending.stderr.count("Exception ignored in")  # by the interpreter, in the middle of an import
    is_quiet = ending.stderr.count("Traceback") == unheard
    return ending.code in (0, INTERRUPTED) and is_quiet and (not hinted or hinted in log)


def _command(play: Play, folder: Path) -> tuple[str, ...]:
    """Begin it, or take up what has begun."""
    begun_before = list(log_of(folder))
    if begun_before:
        return ("run", "--db", STORE, "--resume", begun_before[0])
    return ("run", play.file, "--db", STORE, *play.arguments)


def _outlives(victim: subprocess.Popen[str], moments: Random, usual: Undisturbed) -> bool:
    """Whether the victim ends before its moment comes."""
    if moments.random() < BLIND:
        moment_s = moments.uniform(0, usual.startup_s)
    else:
        assert victim.stdout is not None
        victim.stdout.readline()  # its first commit, or its end
        moment_s = moments.uniform(0, usual.result["duration_s"])
    try:
        victim.wait(moment_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def log_of(folder: Path) -> Log:
    """Every event of the store, by execution, the oldest execution first."""

    async def read() -> Log:
        history = SqliteHistory.open(folder / STORE)
        try:
            rows = await history.executions(limit=1000)
            return {row.execution_id: await history.events(row.execution_id) for row in sorted(rows, key=_age)}
        finally:
            await history.close()

    return asyncio.run(read()) if _is_made(folder / STORE) else {}


def _age(row: ExecutionRow) -> tuple[bool, float]:
    return row.parent_execution_id is not None, row.created_at


def _is_made(path: Path) -> bool:
    """Whether the victim lived long enough to make its store."""
    if not path.exists():
        return False
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone())
    finally:
        connection.close()


# The expectations.


def check(one: Survived, usual: Undisturbed) -> None:
    """Everything the issue promises of a run that was killed."""
    for name in ("status", "result", "ctx", "error"):
        assert one.told.get(name) == usual.result.get(name), f"{name} is another"
    assert msgspec.to_builtins(one.replayed) == one.told, "the log tells the same"
    for kill in one.kills:
        for execution_id, before in kill.items():
            assert one.log[execution_id][: len(before)] == before, "what was recorded stays"
    for events in one.log.values():
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), "the log has no gaps"
        _check_ends(events)
        _check_tasks(events, len(one.kills))
    assert _work(one.log) == _work(usual.log), "the same tasks were done"


def _check_ends(events: Sequence[Event]) -> None:
    """Each thing that began has ended, once."""
    types = Counter(event.event_type for event in events)
    assert types["workflow.finished"] == types["playbook.processed"] == 1
    step_ends = Counter(e.step_run_id for e in events if e.event_type in ("step.done", "step.failed", "loop.done"))
    assert set(step_ends.values()) <= {1}, "a step run ends once"
    iterations = Counter((e.step_run_id, e.payload.path) for e in events if isinstance(e.payload, _ITERATION_ENDS))
    assert set(iterations.values()) <= {1}, "an iteration ends once"
    for event in events:
        if isinstance(event.payload, LoopStarted):
            level = (*event.payload.path, "*")
            ended = [path for run, path in iterations if run == event.step_run_id and (*path[:-1], "*") == level]
            assert len(ended) == event.payload.total, "every iteration ends"


_ITERATION_ENDS = (IterationDone, IterationFailed)


def _check_tasks(events: Sequence[Event], kills: int) -> None:
    """No task is begun again after its end was recorded; any other at most once more for each kill."""
    begun_runs: Counter[str] = Counter()
    over: set[str] = set()
    for event in events:
        match event.payload:
            case TaskStarted(task_run_id=run):
                assert run not in over, f"{event.step}: {event.payload.task} is done and begins again"
                begun_runs[run] += 1
            case TaskProcessed(task_run_id=run):
                assert run not in over, f"{event.step}: {event.payload.task} is recorded twice"
                over.add(run)
    assert max(begun_runs.values(), default=0) <= 1 + kills
    assert set(begun_runs) <= over, "what has begun ends"


def _work(log: Log) -> Counter[Any]:
    """The completed work on any path: each successful task of each step and iteration."""
    return Counter(
        (event.step, event.payload.task, event.payload.path)
        for events in log.values()
        for event in events
        if isinstance(event.payload, TaskProcessed) and event.payload.outcome.ok
    )
