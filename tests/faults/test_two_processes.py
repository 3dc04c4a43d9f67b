"""Several processes on one store: they do not disturb each other, and one run has one driver (WRK-08, SRV-12)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.killing import log_of
from tests.faults.processes import begun, ended, noetl, written

MANY = """
workload: {numbers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}
workflow:
  - step: start
    loop: {in: "{{ workload.numbers }}", iterator: n, spec: {mode: parallel, policy: {reducers: {sum: sum}}}}
    tool:
      name: one
      kind: noop
      args: {n: "{{ iter.n }}"}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ iter.n }}"}}}}]}}
    next: {arcs: [{step: last, when: "{{ event.name == 'loop.done' }}"}]}
  - step: last
    tool: {kind: python, args: {sum: "{{ ctx.sum }}"}, code: "result = sum"}
"""
GATED = """
workflow:
  - step: start
    tool:
      name: gate
      kind: python
      code: |
        import os, time
        print('gate', file=open('ledger', 'a'))
        while not os.path.exists('gate'):
            time.sleep(0.01)
        result = 'through'
"""


def ledger_of(folder: Path) -> str:
    """What the gate wrote: the file may stand before there is anything in it."""
    ledger = folder / "ledger"
    return ledger.read_text() if ledger.exists() else ""


@pytest.mark.req("WRK-08")
def test_concurrent_runs_on_one_new_file_all_complete(tmp_path: Path) -> None:
    file = written(tmp_path, MANY)

    with ExitStack() as stack:
        running = [stack.enter_context(begun("run", file, "--db", "s.db", "-q", cwd=tmp_path)) for _ in range(4)]
        done = [ended(one) for one in running]

    assert [(one.code, one.stdout, one.stderr) for one in done] == [(0, "55\n", "")] * 4
    log = log_of(tmp_path)
    assert len(log) == 4
    assert len({len(events) for events in log.values()}) == 1, "each did the same, and only its own"
    assert all([event.seq for event in events] == list(range(1, len(events) + 1)) for events in log.values())


@pytest.mark.req("WRK-04", "SRV-12")
def test_a_run_driven_by_a_process_cannot_be_resumed_by_another(tmp_path: Path) -> None:
    file = written(tmp_path, GATED)
    with begun("run", file, "--db", "s.db", "-q", cwd=tmp_path) as driver:
        while not any(event.event_type == "task.started" for events in log_of(tmp_path).values() for event in events):
            assert (
                driver.poll() is None
            )  # that event rides along; what the driver has to say is stored once it is there
        before = log_of(tmp_path)
        refused = noetl("run", "--db", "s.db", "--resume", "last", cwd=tmp_path)
        assert log_of(tmp_path) == before, "nothing was recorded by who was refused"
        (tmp_path / "gate").touch()
        done = ended(driver)

    assert refused.code == 4
    assert refused.sentence.startswith("error: execution ")
    assert f"/{driver.pid}/" in refused.sentence
    assert (done.code, done.stdout) == (0, "through\n")
    assert ledger_of(tmp_path) == "gate\n"


def test_two_processes_that_resume_the_same_run_execute_it_once(tmp_path: Path) -> None:
    file = written(tmp_path, GATED)
    with begun("run", file, "--db", "s.db", "-q", cwd=tmp_path) as victim:
        while ledger_of(tmp_path) == "":
            assert victim.poll() is None
        victim.kill()
        victim.wait()
    (tmp_path / "gate").touch()

    with ExitStack() as stack:
        resume = ("run", "--db", "s.db", "--resume", "last", "-q")
        both = [stack.enter_context(begun(*resume, cwd=tmp_path)) for _ in range(2)]
        done = [ended(one) for one in both]

    assert {one.code for one in done} <= {0, 4}, [one.stderr for one in done]
    assert any(one.stdout == "through\n" for one in done)
    (events,) = log_of(tmp_path).values()
    assert [event.event_type for event in events].count("playbook.processed") == 1
    assert [event.event_type for event in events].count("task.processed") == 1
    assert ledger_of(tmp_path) == "gate\ngate\n", "once before the kill, once after it"
