"""`rerun`, `replay` and `explain`: run an execution again, replay its log, explain what it waits for (CLI-04)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.operations.embedded import RunResult, run
from tests.cli.running import call
from tests.cli.stored import stored
from tests.cli.waiting_run import left_waiting
from tests.engine_script import playbook

Runs = tuple[str, RunResult, RunResult]

CHAIN = """
workload: {n: 1}
workflow:
  - step: start
    tool: [{name: count, kind: noop, args: {n: "{{ workload.n }}"}}]
    set_ctx: {seen: "{{ start.n }}"}
    next: {arcs: [{step: finish, args: {given: "{{ start.n }}"}}]}
  - step: finish
    tool: [{name: last, kind: noop, args: {got: "{{ args.given }}", seen: "{{ ctx.seen }}", n: "{{ workload.n }}"}}]
  - step: never
"""
WAITING = """
workflow:
  - step: start
    message: {name: go, correlation: {n: 1}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return stored(tmp_path_factory.mktemp("again"))


@pytest.mark.req("CLI-04", "EVT-07")
@pytest.mark.parametrize("form", ["text", "json"])
def test_replay_to_the_end_prints_the_same_as_status(runs: Runs, form: str) -> None:
    for one in runs[1:]:
        told = call("replay", one.execution_id, "-o", form, "--db", runs[0])
        assert told == call("status", one.execution_id, "-o", form, "--db", runs[0])
        assert told[0] == 0


@pytest.mark.req("CLI-04")
def test_replay_stops_at_the_given_event_or_at_the_end(runs: Runs) -> None:
    db, good, _ = runs
    code, stdout, _ = call("replay", good.execution_id, "--until", "4", "-o", "json", "--db", db)
    told = json.loads(stdout)

    assert (code, told["status"], told["events"], told["finished_at"]) == (0, "running", 4, None)
    code, _, stderr = call("replay", good.execution_id, "--until", "99999", "--db", db)
    assert code == 4
    assert f"has {good.events} events" in stderr


@pytest.mark.req("CLI-04")
def test_rerun_uses_the_inputs_of_the_first_run_by_default(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    first = run(playbook(CHAIN), {"n": 5}, db=db)

    code, stdout, _ = call("rerun", first.execution_id, "-q", "--db", db)
    assert (code, json.loads(stdout)) == (0, {"got": 5, "seen": 5, "n": 5})
    code, stdout, _ = call("rerun", first.execution_id, "--set", "n=6", "-q", "--db", db)
    assert (code, json.loads(stdout)) == (0, {"got": 6, "seen": 6, "n": 6})


@pytest.mark.req("CLI-04")
def test_rerun_from_a_step_reuses_earlier_results(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    first = run(playbook(CHAIN), {"n": 5}, db=db)

    code, stdout, _ = call("rerun", first.execution_id, "--from", "finish", "--set", "n=6", "-q", "--db", db)

    assert (code, json.loads(stdout)) == (0, {"got": 5, "seen": 5, "n": 6})
    assert json.loads(call("ctx", "last", "--db", db)[1]) == {"seen": 5}
    assert json.loads(call("result", "last", "--step", "start", "--db", db)[1]) == {"n": 5}
    events = call("events", "last", "--db", db)[1]
    assert {line.split()[3] for line in events.splitlines() if line.split()[2].startswith("step.")} == {"finish"}
    told = call("replay", "last", "-o", "json", "--db", db)
    assert told == call("status", "last", "-o", "json", "--db", db)


@pytest.mark.parametrize(("step", "why"), [("nowhere", 'no step "nowhere"'), ("never", 'never entered step "never"')])
def test_rerun_from_a_step_that_never_ran_is_refused(tmp_path: Path, step: str, why: str) -> None:
    db = str(tmp_path / "s.db")
    first = run(playbook(CHAIN), db=db)

    code, _, stderr = call("rerun", first.execution_id, "--from", step, "--db", db)

    assert code == 4
    assert why in stderr


def test_explain_shows_how_the_execution_ended(runs: Runs) -> None:
    db, good, bad = runs

    assert "the execution has ended: completed" in call("explain", good.execution_id, "--db", db)[1]
    assert "no luck" in call("explain", bad.execution_id, "--db", db)[1]


def test_explain_shows_what_a_token_waits_for(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, playbook(WAITING))

    code, stdout, _ = call("explain", "last", "-o", "json", "--db", db)
    told = json.loads(stdout)

    assert code == 0
    assert [token["state"] for token in told["tokens"]] == ["waiting"]
    assert 'message "go"' in told["sentences"][0]


ITEMS = """
workflow:
  - step: start
    loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: MODE}}
    spec: {policy: {failure: {mode: FAILURE}}}
    tool: [{name: load, kind: python, args: {n: "{{ iter.n }}", good: "GOOD"}, code: "CODE"}]
    next: {arcs: [{step: finish}]}
  - step: finish
    tool: [{name: all, kind: noop, args: {all: "{{ start }}"}}]
"""
CODE = "import os; print(n); assert n not in (1, 4) or os.path.exists(good); result = n * 10"


def items(tmp_path: Path, mode: str = "parallel", failure: str = "best_effort", code: str = CODE) -> str:
    text = ITEMS.replace("MODE", mode).replace("FAILURE", failure).replace("CODE", code)
    return playbook(text.replace("GOOD", str(tmp_path / "good")))


def printed_by(db: str, execution: str = "last") -> list[str]:
    return sorted(line.rpartition(" ")[2] for line in call("logs", execution, "--db", db)[1].splitlines())


@pytest.mark.req("CLI-04")
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_only_the_failed_items_of_a_loop_are_rerun_and_other_results_are_reused(tmp_path: Path, mode: str) -> None:
    db = str(tmp_path / "s.db")
    first = run(items(tmp_path, mode), db=db)
    (tmp_path / "good").touch()

    code, stdout, _ = call("rerun", first.execution_id, "--failed-items", "-q", "--db", db)
    status = json.loads(call("status", "last", "-o", "json", "--db", db)[1])

    assert first.result == {"all": [0, None, 20, 30, None, 50]}
    assert (code, json.loads(stdout)) == (0, {"all": [0, 10, 20, 30, 40, 50]})
    assert printed_by(db) == ["1", "4"]
    assert status["status"] == "completed"
    rows = json.loads(call("executions", "-o", "json", "--db", db)[1])
    assert [(row["failed_iterations"], row["iterations"]) for row in rows] == [(0, 0), (2, 6)]
    heading, healed, broken = call("executions", "--db", db)[1].splitlines()
    assert "ITERATIONS" in heading
    assert "2 of 6 failed" in broken
    assert "failed" not in healed
    assert call("rerun", "last", "--failed-items", "--db", db)[2].startswith("error: no item of a loop has failed")
    assert "there is nothing to run" in call("rerun", "last", "--failed-items", "--from", "start", "--db", db)[2]


@pytest.mark.req("CLI-04")
def test_items_that_fail_again_can_be_rerun_again(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    run(items(tmp_path), db=db)

    code, stdout, _ = call("rerun", "last", "--failed-items", "-q", "--db", db)
    (tmp_path / "good").touch()
    again, healed, _ = call("rerun", "last", "--failed-items", "-q", "--db", db)

    assert (code, json.loads(stdout)) == (0, {"all": [0, None, 20, 30, None, 50]})
    assert (again, json.loads(healed)) == (0, {"all": [0, 10, 20, 30, 40, 50]})
    assert printed_by(db) == ["1", "4"]


@pytest.mark.req("CLI-04")
def test_rerunning_failed_items_also_runs_items_that_never_ran(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    first = run(items(tmp_path, "sequential", "fail_fast"), db=db)
    (tmp_path / "good").touch()

    code, stdout, _ = call("rerun", "last", "--failed-items", "-q", "--db", db)

    assert first.error is not None
    assert (code, json.loads(stdout)) == (0, {"all": [0, 10, 20, 30, 40, 50]})
    assert printed_by(db) == ["1", "2", "3", "4", "5"]


WRITING = """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n, spec: {mode: sequential}}
    spec: {policy: {failure: {mode: best_effort}}}
    tool:
      - name: load
        kind: python
        args: {n: "{{ iter.n }}"}
        code: "assert n == 1; result = n"
        spec:
          policy:
            rules:
              - {when: "{{ outcome.status == 'success' }}", then: {do: continue, set_ctx: {seen: 1}}}
              - {else: {then: {do: fail}}}
"""
NESTED = """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n, loop: {in: [3], iterator: m}}
    spec: {policy: {failure: {mode: best_effort}}}
    tool: [{name: load, kind: python, args: {n: "{{ iter.parent.n }}"}, code: "assert n == 1"}]
"""
CHANGED = """
workflow:
  - step: start
    loop: {in: "{{ workload.all }}", iterator: n}
    tool: [{name: load, kind: python, args: {n: "{{ iter.n }}"}, code: "assert n == 1"}]
workload: {all: [1, 2]}
"""


@pytest.mark.req("CLI-04")
@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        (WRITING, (), "write variables"),
        (NESTED, (), "has another one inside it"),
        (CHANGED, ("--set", "all=[2, 1]"), "the collection is not the one that the earlier run had"),
        (CHAIN, ("--from", "finish"), "has no loop"),
    ],
)
def test_a_loop_with_missing_results_is_not_rerun_by_items(
    tmp_path: Path, text: str, options: tuple[str, ...], why: str
) -> None:
    db = str(tmp_path / "s.db")
    run(playbook(text), db=db)

    code, stdout, stderr = call("rerun", "last", "--failed-items", *options, "--db", db)

    assert code != 0
    assert why in stdout + stderr


@pytest.mark.req("CLI-04")
def test_inputs_shows_the_inputs_of_a_step_and_compares_them_with_another_run(tmp_path: Path) -> None:
    file, db = tmp_path / "chain.yaml", str(tmp_path / "runs.db")
    file.write_text(playbook(CHAIN))
    one, two = run(file, {"n": 1}, db=db), run(file, {"n": 2}, db=db)

    code, stdout, _ = call("inputs", two.execution_id, "finish", "--against", one.execution_id, "--db", db)
    told = json.loads(call("inputs", two.execution_id, "finish", "-o", "json", "--db", db)[1])

    assert code == 0
    assert "args.got: 1 → 2" in stdout
    assert f"of {one.execution_id}" in stdout
    assert told["inputs"]["args"] == {"got": 2, "seen": 2, "n": 2}
    assert (told["before"], told["attempt"]["status"]) == (None, "success")
    code, _, stderr = call("inputs", two.execution_id, "never", "--db", db)
    assert (code, f'execution {two.execution_id} has no attempt of step "never"' in stderr) == (4, True)


@pytest.mark.req("CLI-02")
def test_a_run_of_a_text_is_a_draft_here_as_on_a_server_until_it_is_registered(tmp_path: Path) -> None:
    db, book = str(tmp_path / "own.db"), tmp_path / "book.yaml"
    book.write_text(playbook(CHAIN), "utf-8")
    assert call("run", "-", "--db", db, stdin=book.read_text("utf-8"))[0] == 0  # a file would be registered

    def trials() -> tuple[str | None, str | None]:
        (row,) = json.loads(call("executions", "-o", "json", "--db", db)[1])
        return row["trial"], json.loads(call("status", "last", "-o", "json", "--db", db)[1])["trial"]

    assert trials() == ("draft", "draft")
    assert call("executions", "--db", db)[1].splitlines()[1].endswith("(draft)")
    assert call("register", str(book), "--db", db)[0] == 0
    assert trials() == (None, None)
