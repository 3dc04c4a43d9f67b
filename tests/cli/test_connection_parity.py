"""One command line for file and server: the same commands say the same, with the same exit codes (CLI-02, CLI-05).

A server and its store file are both there, so each command is asked twice, once through the server, once on the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import call
from tests.cli.served_here import served_here
from tests.engine_script import playbook
from tests.waiting import until

WAITING = playbook(
    """
workload: {order: 7}
workflow:
  - step: start
    message: {name: paid, correlation: {order: "{{ workload.order }}"}}
    next: {arcs: [{step: approve}]}
  - step: approve
    human_task:
      title: "Ship {{ workload.order }}?"
      assignee: {role: boss}
      form: [{field: decision, type: enum, options: [ship, keep], required: true}]
    next: {arcs: [{step: pause}]}
  - step: pause
    timer: {id: rest, duration: P30D, spec: {cancellable: true}}
    next: {arcs: [{step: listen}]}
  - step: listen
    signal: {name: go}
"""
)
# Next year, mostly: none of these times may pass between two questions that are to be answered alike.
NIGHTLY = playbook(
    """
trigger: {timer: {cron: "0 6 1-3 1 *", spec: {timezone: Europe/Berlin}}}
workflow:
  - {step: start, tool: {kind: noop}}
"""
)


class Place:
    """A server, its file, and who asks."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.there, self.here = home, ("--server", url), ("--db", str(home / "noetl.db"))

    def both(self, *arguments: str) -> str:
        """What is said in both places, which must be the same."""
        there, here = call(*arguments, *self.there), call(*arguments, *self.here)
        assert there == here
        return there[1]

    def said(self, *arguments: str) -> str:
        code, out, err = call(*arguments, *self.there)
        assert code == 0, out + err
        return out

    def told(self, *arguments: str) -> Any:
        return json.loads(self.said(*arguments, "-o", "json"))

    def refused(self, *arguments: str, code: int = 4) -> str:
        ended, out, err = call(*arguments, *self.there)
        assert (ended, out) == (code, ""), out + err
        assert "Traceback" not in err
        return err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("parity")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NOETL_HOME", str(home))
        for name in ("NOETL_MASTER_KEY", "NOETL_MASTER_KEY_FILE", "NOETL_SERVER", "NOETL_TOKEN"):
            patched.delenv(name, raising=False)
        token = call("token", "create", "ann", "--role", "admin", "--human-role", "boss")[1].strip()
        patched.setenv("NOETL_TOKEN", token)
        with served_here(home / "noetl.db") as url:
            (home / "waiting.yaml").write_text(WAITING.replace("tests/page", "tests/waiting"))
            (home / "nightly.yaml").write_text(NIGHTLY)
            yield Place(home, url)


def begun(place: Place) -> str:
    return place.said("run", str(place.home / "waiting.yaml"), "--detach").strip()


def awaits(place: Place, execution_id: str, event_type: str) -> None:
    """Until the log has this event."""
    until(lambda: place.told("events", execution_id, "--type", event_type))


def are_over(place: Place, *, number: int) -> bool:
    """Whether there are so many executions, and all of them have ended."""
    rows = place.told("executions")
    return len(rows) == number and all(one["status"] not in ("running", "paused") for one in rows)


@pytest.mark.req("CLI-02", "CLI-05")
def test_a_waiting_execution_is_completed_through_the_server(place: Place) -> None:
    given = begun(place)
    awaits(place, given, "message.awaited")
    sent = place.told("message", "send", "paid", "-c", "order=7", "--id", "m1")
    assert sent == {"message_id": "m1", "delivered_to": given, "known": False}
    assert "had been sent before" in place.said("message", "send", "paid", "-c", "order=7", "--id", "m1")

    awaits(place, given, "human.created")
    [task] = json.loads(place.both("task", "list", "--execution", given, "-o", "json"))
    assert place.both("task", "show", task["task_id"][:30]).startswith(f"task       {task['task_id']}")
    assert "task_id" in yaml.safe_load(place.both("task", "show", task["task_id"], "-o", "yaml"))
    assert "leave --as and --role out" in place.refused("task", "claim", task["task_id"], "--as", "bob", code=2)
    assert "decision" in place.refused("task", "complete", task["task_id"], "--set", "decision=eat")
    assert place.said("task", "claim", task["task_id"]) == 'claimed task "Ship 7?" as ann\n'
    assert place.said("task", "release", task["task_id"]) == 'released task "Ship 7?" as ann\n'
    assert place.said("task", "complete", task["task_id"], "--set", "decision=ship").endswith(" as ann\n")

    awaits(place, given, "timer.scheduled")
    [timer] = json.loads(place.both("timer", "list", given, "-o", "json"))
    assert timer in place.told("timer", "list")
    assert place.both("timer", "list", given).splitlines()[1].startswith("rest ")
    assert "leave --as out" in place.refused("timer", "cancel", given, timer["id"], "--as", "bob", code=2)
    assert 'no timer "nap"' in place.refused("timer", "cancel", given, "nap")
    assert place.said("timer", "cancel", given, timer["timer"]).endswith(f"of execution {given}\n")

    awaits(place, given, "signal.awaited")
    assert place.said("event", "send", given, "order.changed", "--key", "k") == (
        f"execution {given} has received order.changed\n"
    )
    assert place.said("event", "send", given, "order.changed", "--key", "k").endswith(" before\n")
    assert "name of the system" in place.refused("event", "send", given, "step.done")
    assert place.said("signal", "send", "go") == f"execution {given} received go\n"
    code, out, err = call("signal", "send", "go", *place.there)
    assert (code, out, "no execution waits" in err) == (0, "", True)

    assert call("watch", given, "-q", *place.there)[0] == 0
    there, here = (json.loads(call("status", given, "-o", "json", *where)[1]) for where in (place.there, place.here))
    assert there == here
    assert place.both("executions", "-o", "id").split()[0] == given


@pytest.mark.req("CLI-02", "TMR-01")
def test_schedules_are_listed_and_controlled_through_the_server(place: Place) -> None:
    path = place.said("register", str(place.home / "nightly.yaml")).split()[0]
    before = len(place.told("executions"))

    assert [one["path"] for one in json.loads(place.both("schedule", "list", "-o", "json"))] == [path]
    assert place.both("schedule", "list").splitlines()[1].startswith(path)
    coming = place.both("schedule", "next", path, "-n", "3")
    assert len(coming.splitlines()) == 3
    assert place.said("schedule", "pause", path) == f"paused the schedule of {path}\n"
    assert "paused" in place.both("schedule", "list")
    assert place.both("schedule", "next", path, "-n", "3") == coming
    assert place.said("schedule", "resume", path) == f"resumed the schedule of {path}\n"
    span = ("--from", "2025-01-01", "--to", "2025-01-03T12:00")
    assert place.both("schedule", "backfill", path, *span, "--dry-run").splitlines()[0] == "2025-01-01T06:00:00+01:00"
    assert place.said("schedule", "backfill", path, *span) == (
        "3 of 3 times to run, 0 have run; the server runs them, 5 at a time\n"
    )
    until(lambda: are_over(place, number=before + 3))  # other tests compare them
    assert "no schedule" in place.refused("schedule", "pause", "tests/nowhere")


@pytest.mark.req("CLI-02")
def test_comparing_two_executions_prints_the_same_for_a_server_and_its_file(place: Place) -> None:
    text = "workload: {n: 1}\nworkflow:\n  - {step: start, tool: {kind: noop, args: {n: '{{ workload.n }}'}}}\n"
    (place.home / "number.yaml").write_text(playbook(text).replace("tests/test", "tests/number"))
    for n in (1, 2):
        place.said("run", "-q", str(place.home / "number.yaml"), "--set", f"n={n}")
    after, before = place.told("executions")[:2]

    told = json.loads(place.both("compare", before["execution_id"], after["execution_id"], "-o", "json"))
    text = place.both("compare", after["execution_id"])

    assert [told[side]["execution_id"] for side in ("before", "after")] == [
        before["execution_id"],
        after["execution_id"],
    ]
    assert told["inputs"] == [{"path": "n", "values": {"before": 1, "after": 2}, "entries": None, "more": 0}]
    assert "inputs:\n  n: 1 → 2\nvariables are the same\nresults:\n  start.result.n: 1 → 2\n" in text
    assert "was not run before" in place.refused("compare", before["execution_id"])
    assert "name one or two executions, not 3" in place.refused("compare", "a", "b", "c")


STEPS = playbook(
    """
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: noop, args: {n: "{{ workload.n }}"}}
    next: {arcs: [{step: add, args: {more: 5}}]}
  - step: add
    tool: {kind: noop, args: {sum: "{{ start.n + args.more + workload.n }}"}}
    next: {arcs: [{step: never}]}
  - {step: never, tool: {kind: noop, args: {said: never}}}
"""
)


@pytest.mark.req("CLI-02")
def test_one_step_of_a_file_runs_alone_locally_and_on_the_server(place: Place) -> None:
    file = str(place.home / "steps.yaml")
    Path(file).write_text(STEPS)
    given = ("--step-inputs", '{"args": {"more": 20}, "results": {"start": {"n": 300}}}')

    for where in (place.there, place.here):
        alone = call("run", "-q", file, "--step", "add", *given, "--set", "n=4", *where)
        [tested] = json.loads(call("executions", "-o", "json", *where)[1])[:1]
        whole = call("run", "-q", file, "--set", "n=2", *where)
        like = call("run", "-q", file, "--step", "add", "--like", "last", *where)
        changed = call(
            "run", "-q", file, "--step", "add", "--like", "last", "--step-inputs", '{"args": {"more": 9}}', *where
        )
        unknown = call("run", "-q", file, "--step", "ad", *where)

        assert (alone[0], json.loads(alone[1])) == (0, {"sum": 324}), alone[2]
        assert tested["path"].endswith("/step-test")
        assert (whole[0], json.loads(whole[1])) == (0, {"said": "never"}), whole[2]
        assert (like[0], json.loads(like[1])) == (0, {"sum": 9}), like[2]
        assert (changed[0], json.loads(changed[1])) == (0, {"sum": 13}), changed[2]
        assert (unknown[0], 'this text has no step "ad"; its steps are start, add, never' in unknown[2]) == (4, True)


def test_a_step_that_cannot_run_alone_is_refused(place: Place) -> None:
    file = str(place.home / "steps.yaml")
    Path(file).write_text(STEPS)
    wrong = {
        ("--like", "last"): "name it with --step",
        ("--step", "add", "--step-inputs", '{"rslts": 1}'): "it has args, ctx and results",
        ("--step", "add", "--step-inputs", "[1]"): "a JSON object is needed",
    }

    for options, said in wrong.items():
        assert said in place.refused("run", file, *options, code=2)
    assert "--step runs a step of a file" in place.refused("run", "tests/nowhere", "--step", "add", code=2)


@pytest.mark.req("CLI-02", "KEY-05")
def test_credentials_are_stored_through_the_server_and_never_shown(place: Place) -> None:
    code, out, err = call("credential", "set", "pg", "--type", "bearer", *place.there, stdin="s3cr3t-token")
    assert (code, out) == (0, "stored pg (bearer, version 1)\n"), err

    listed = place.both("credential", "list")
    assert listed.splitlines()[1].startswith("pg")
    assert "s3cr3t" not in listed + place.both("credential", "list", "-o", "json")
    assert place.both("credential", "list", "-o", "id") == "pg\n"
    assert "1 credential now encrypted under master key" in place.said("credential", "rotate")
    assert place.said("credential", "delete", "pg") == "deleted pg\n"
    assert "there is no credential" in place.refused("credential", "delete", "pg")


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "id"])
@pytest.mark.parametrize(
    "what", [("token", "list"), ("webhook", "list"), ("catalog", "list"), ("executions",), ("task", "list")]
)
def test_lists_have_the_same_formats_on_a_server_and_a_file(place: Place, what: tuple[str, ...], form: str) -> None:
    if what == ("token", "list"):  # when it was used last moves with every request
        assert call(*what, "-o", form, *place.there)[0] == 0
        return
    place.both(*what, "-o", form)


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl", "id"])
def test_server_only_lists_have_the_same_formats_too(place: Place, form: str) -> None:
    assert call("pool", "list", "-o", form, *place.there)[0] == 0
    assert call("audit", "list", "-o", form, "-n", "3", *place.there)[0] == 0


def test_a_caller_without_the_role_gets_a_clear_refusal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = place.told("token", "create", "eve", "--role", "viewer")["token"]
    monkeypatch.setenv("NOETL_TOKEN", viewer)
    for arguments in (
        ("message", "send", "paid"),
        ("credential", "list"),
        ("token", "list"),
        ("schedule", "pause", "x"),
    ):
        assert "may not" in place.refused(*arguments) or "role" in place.refused(*arguments)
    monkeypatch.setenv("NOETL_TOKEN", "noetl_nobody_nothing")
    assert "noetl login" in place.refused("task", "list")


def test_the_current_context_selects_the_server(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("context", "add", "prod", place.there[1], "--use")[0] == 0
    try:
        code, out, _ = call("message", "send", "nobody.waits", "--id", "m9")
        assert (code, out) == (0, 'message m9 is stored until a step waits for "nobody.waits"\n')
        assert call("pool", "list")[0] == 0
        assert call("task", "list", *place.here, "--server", "prod")[0] == 2
    finally:
        call("context", "remove", "prod")
