"""`noetl task`: human tasks on the command line, for a running execution and for one without a process (CLI-05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, call
from tests.cli.waiting_run import WaitingRun, done, json_output, left_waiting, refused
from tests.control.waiting import TASK
from tests.engine_script import playbook

PURCHASE = FIXTURES / "F-002-M.yaml"
MANAGER = ("--as", "bea", "--role", "finance_manager")


@pytest.fixture
def left(tmp_path: Path) -> str:
    """A store in which a purchase waits for its manager, and nobody runs it."""
    db = str(tmp_path / "s.db")
    left_waiting(db, PURCHASE)
    return db


def task_id(db: str) -> str:
    [task] = json_output(db, "task", "list")
    return str(task["task_id"])


@pytest.mark.req("CLI-05", "HUM-01")
@pytest.mark.parametrize(("decision", "step"), [("approve", "process"), ("reject", "reject")])
def test_completing_a_task_continues_the_execution(tmp_path: Path, decision: str, step: str) -> None:
    with WaitingRun(PURCHASE, tmp_path, "waits", "Approve Purchase Order") as run:
        task = task_id(run.db)
        done(run.db, "task", "claim", task, *MANAGER)
        said = done(run.db, "task", "complete", task, *MANAGER, "--set", f"decision={decision}")
        code, stderr = run.end()

    assert said == 'completed task "Approve Purchase Order" as bea\n'
    assert code == 0, stderr
    assert f"  {step} " in stderr


@pytest.mark.req("CLI-05", "HUM-01")
def test_a_task_of_an_abandoned_run_is_completed_locally(left: str) -> None:
    said = done(left, "task", "complete", task_id(left), *MANAGER, "--set", "decision=approve")

    assert said == 'completed task "Approve Purchase Order" as bea\n'
    assert json_output(left, "status", "last")["status"] == "completed", "nothing of it needed a worker"


@pytest.mark.req("HUM-01", "SRV-12")
@pytest.mark.usefixtures("nobody_is_waited_for")
def test_a_task_of_a_killed_run_is_completed_without_waiting_for_its_lease(tmp_path: Path) -> None:
    with WaitingRun(PURCHASE, tmp_path, "waits") as run:
        run.process.kill()
        run.end()

    done(run.db, "task", "complete", task_id(run.db), *MANAGER, "--set", "decision=reject")

    assert json_output(run.db, "status", "last")["status"] == "completed"


@pytest.mark.req("CLI-05", "HUM-01", "SRV-12")
def test_a_step_after_a_completed_task_runs_when_the_run_is_resumed(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    left_waiting(db, playbook(TASK.replace("{kind: noop}", "{kind: python, code: \"result = 'through'\"}")))
    who = ("--as", "bea", "--role", "boss")

    said = done(db, "task", "complete", task_id(db), *who, "--set", "decision=yes_please")
    assert f"no process runs its execution now; resume it with: noetl run --db {db} --resume" in said

    assert call("run", "--resume", "last", "--db", db)[:2] == (0, "through\n")


@pytest.mark.req("HUM-02")
def test_tasks_are_listed_as_text_and_as_json(left: str) -> None:
    listed = done(left, "task", "list", "--role", "finance_manager")
    assert listed.split("\n")[0].split() == ["TASK", "STATE", "FOR", "DUE", "TITLE"]
    assert "role finance_manager" in listed
    assert "Approve Purchase Order" in listed
    assert done(left, "task", "list", "--role", "janitor") == "no tasks\n"
    assert done(left, "task", "list", "--state", "completed") == "no tasks\n"
    assert done(left, "task", "list", "-o", "id").strip() == task_id(left)
    [task] = json_output(left, "task", "list", "--execution", "last", "--state", "all")
    assert (task["state"], task["version"], task["role"]) == ("open", 1, "finance_manager")
    assert task["due_at"].endswith("Z")


@pytest.mark.req("HUM-03")
def test_a_task_is_shown_with_its_form(left: str) -> None:
    shown = done(left, "task", "show", task_id(left)[:8])

    assert "title      Approve Purchase Order\n" in shown
    assert "for        human role finance_manager\n" in shown
    assert "field      decision: enum, approve | reject\n" in shown


@pytest.mark.req("HUM-02", "HUM-03")
def test_a_forbidden_task_command_is_refused_with_its_reason(left: str) -> None:
    task = task_id(left)

    assert "is for human role finance_manager, which you do not act in" in refused(
        left, "task", "claim", task, "--as", "ann"
    )
    assert "one of approve, reject" in refused(left, "task", "complete", task, *MANAGER, "--set", "decision=maybe")
    assert "is not claimed" in refused(left, "task", "release", task, *MANAGER)
    done(left, "task", "claim", task, *MANAGER, "--seen", "1")
    assert "you saw version 1, this is version 2" in refused(left, "task", "release", task, *MANAGER, "--seen", "1")
    assert "claimed by bea" in refused(left, "task", "claim", task, "--as", "bob", "--role", "finance_manager")
    assert done(left, "task", "release", task, *MANAGER).startswith("released task")
    assert 'no human task "zzz" here' in refused(left, "task", "show", "zzz")


def test_values_are_passed_as_json_or_one_by_one(left: str) -> None:
    task = task_id(left)

    assert call("task", "complete", task, "--values", "[1]", "--db", left)[0] == 2
    assert call("task", "complete", task, "--set", "decision", "--db", left)[0] == 2
    done(left, "task", "complete", task, *MANAGER, "--values", '{"decision": "approve"}')

    [completed] = json_output(left, "task", "list", "--state", "completed")
    assert (completed["result"], completed["completed_by"]) == ({"decision": "approve"}, "bea")


def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    assert "there is no store" in refused(str(tmp_path / "none.db"), "task", "list")
    assert not (tmp_path / "none.db").exists()


def test_status_counts_a_waiting_step_as_waiting(tmp_path: Path) -> None:
    """Its tasks are done, and `step.done` is in the log; the step itself is over with its wait."""
    db = str(tmp_path / "s.db")
    file = tmp_path / "one.yaml"
    file.write_text(playbook("workflow: [{step: start, human_task: {title: T, form: [{field: n, type: text}]}}]"))
    left_waiting(db, file)

    assert "steps     0 done, 0 under way, 1 waiting; " in call("status", "last", "--db", db)[1]
