"""`executions`, `status`, `events`, `logs`, `result` and `ctx`: what is recorded, from another terminal (CLI-02)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.operations.embedded import RunResult
from tests.cli.running import call, process
from tests.cli.stored import stored
from tests.engine_script import playbook
from tests.servers.http import HttpServer, reply

Runs = tuple[str, RunResult, RunResult]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return stored(tmp_path_factory.mktemp("looking"))


def look(runs: Runs, command: str, *arguments: str) -> str:
    code, stdout, stderr = call(command, *arguments, "--db", runs[0])
    assert (code, stderr) == (0, "")
    return stdout


@pytest.mark.req("CLI-02")
def test_executions_are_listed_newest_first(runs: Runs) -> None:
    _, good, bad = runs

    lines = look(runs, "executions").splitlines()

    assert lines[0].split() == ["EXECUTION", "STATUS", "STARTED", "TOOK", "EVENTS", "PATH"]
    assert [line.split()[:2] for line in lines[1:]] == [[bad.execution_id, "failed"], [good.execution_id, "completed"]]


def test_executions_are_filtered_and_printed_in_machine_formats(runs: Runs) -> None:
    _, good, bad = runs

    assert look(runs, "executions", "-o", "id").split() == [bad.execution_id, good.execution_id]
    assert look(runs, "executions", "--status", "completed", "-o", "id").split() == [good.execution_id]
    assert look(runs, "executions", "--path", "nowhere/*", "-o", "jsonl") == ""
    assert look(runs, "executions", "--status", "paused") == "no executions\n"
    [row] = json.loads(look(runs, "executions", "--status", "failed", "-o", "json"))
    assert row["status"] == "failed"
    assert row["events"] == bad.events
    assert row["finished_at"].endswith("Z")


def test_the_next_page_starts_where_the_last_one_ended(runs: Runs) -> None:
    db, good, bad = runs

    code, first, hint = call("executions", "--limit", "1", "-o", "table", "--db", db)

    assert code == 0
    assert bad.execution_id in first
    assert hint == f"more: noetl executions --beyond {bad.execution_id}\n"
    assert look(runs, "executions", "--beyond", bad.execution_id, "-o", "id").split() == [good.execution_id]


@pytest.mark.parametrize("command", ["status", "events", "logs", "result", "ctx", "pause", "resume", "cancel"])
def test_an_unknown_execution_is_refused_with_the_nearest_match(runs: Runs, command: str) -> None:
    db, good, _ = runs
    misread = good.execution_id[:-1] + ("0" if good.execution_id[-1] != "0" else "1")

    code, stdout, stderr = call(command, misread, "--db", db)

    assert (code, stdout) == (4, "")
    assert stderr.startswith(f'error: no execution "{misread}" here; the nearest: ')
    assert good.execution_id in stderr


@pytest.mark.parametrize(
    "command", [("executions",), ("status", "last"), ("pause", "last"), ("run", "--resume", "last")]
)
def test_a_missing_store_is_reported_in_one_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = process(*command, "--db", str(tmp_path / "none.db"))

    assert done.returncode == 4
    assert done.stderr == (
        f"error: there is no store {tmp_path}/none.db: run a playbook first, or name another file with --db\n"
    )


def test_a_unique_prefix_names_an_execution_and_last_names_the_newest(runs: Runs) -> None:
    _, good, bad = runs
    shared = next(n for n in range(36) if good.execution_id[n] != bad.execution_id[n])

    assert good.execution_id in look(runs, "status", good.execution_id[: shared + 1])
    assert bad.execution_id in look(runs, "status", "last")
    code, _, stderr = call("status", good.execution_id[:shared], "--db", runs[0])
    assert code == 4
    assert f'several executions begin with "{good.execution_id[:shared]}"' in stderr
    assert good.execution_id in stderr
    assert call("status", "", "--db", runs[0])[0] == 4


def test_last_names_the_newest_execution_that_is_not_nested(tmp_path: Path) -> None:
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{name: {0}, path: {0}}}\n"
    head += "workflow: [{{step: start, tool: {1}}}]"
    (tmp_path / "inner.yaml").write_text(head.format("inner", "{kind: noop}"))
    outer = tmp_path / "outer.yaml"
    outer.write_text(head.format("outer", "{kind: playbook, path: inner}"))
    db = str(tmp_path / "s.db")
    assert call("run", str(outer), "--db", db)[0] == 0

    assert json.loads(call("executions", "--limit", "1", "-o", "json", "--db", db)[1])[0]["path"] == "inner"
    assert json.loads(call("status", "last", "-o", "json", "--db", db)[1])["path"] == "outer"


def test_status_shows_the_failure_with_its_step_and_task(runs: Runs) -> None:
    text = look(runs, "status", "last")
    told = json.loads(look(runs, "status", "last", "-o", "json"))

    assert "step start, task risky: retry.exhausted" in text
    assert (told["status"], told["steps_failed"], told["steps"]) == ("failed", 1, [])
    assert (told["error"]["step"], told["error"]["task"]) == ("start", "risky")
    assert told["error"]["cause"]["message"] == "ValueError: no luck"
    assert '          Traceback (most recent call last):\n            File "start/risky", line' in text
    assert "raise ValueError" in text


def test_the_response_of_a_failed_service_is_shown_below_the_error(tmp_path: Path) -> None:
    file, db = tmp_path / "full.yaml", ("--db", str(tmp_path / "full.db"))
    with HttpServer({"/json": reply(503, json={"why": "disk full"}), "/page": reply(503, text="<p>\n" * 12)}) as server:
        tool = f'{{kind: http, url: "{server.url}/{{{{ workload.path }}}}"}}'
        file.write_text(playbook(f"workload: {{path: json}}\nworkflow: [{{step: start, tool: {tool}}}]"))
        ran = call("run", str(file), *db)[2]
        shown = [call(command, "last", *db) for command in ("status", "logs", "result", "watch")]
        page = call("run", str(file), "--set", "path=page", *db)[2]

    assert 'answer: {"why":"disk full"}\n' in ran
    assert ['answer: {"why":"disk full"}\n' in out + err for _, out, err in shown] == [True] * 4
    assert "answer: <p>" in page
    assert "… 4 more lines" in page


@pytest.mark.req("EVT-02")
def test_the_end_of_a_long_error_is_shown(tmp_path: Path) -> None:
    file, db = tmp_path / "long.yaml", ("--db", str(tmp_path / "long.db"))
    code = f"raise RuntimeError('{'long ' * 60}: turn it off and on')"
    file.write_text(playbook(f'workflow: [{{step: start, tool: {{kind: python, code: "{code}"}}}}]'))

    _, _, ran = call("run", str(file), *db)

    told = {command: "".join(call(command, "last", *db)[1:]) for command in ("status", "logs", "result")}
    (ending,) = [line for line in ran.splitlines() if line.startswith("failed: ")]
    assert "turn it off and on" in ending
    assert [command for command, text in told.items() if "turn it off and on" not in text] == []


def test_events_are_printed_as_text_and_as_complete_envelopes(runs: Runs) -> None:
    _, good, _ = runs

    text = look(runs, "events", good.execution_id).splitlines()
    listed = json.loads(look(runs, "events", good.execution_id, "-o", "json"))
    lines = look(runs, "events", good.execution_id, "-o", "jsonl").splitlines()

    assert len(text) == len(listed) == len(lines) == good.events
    assert text[0].split()[2] == "playbook.execution_requested"
    assert [event["seq"] for event in listed] == list(range(1, good.events + 1))
    assert json.loads(lines[-1]) == listed[-1]
    assert listed[0]["data"] == listed[0]["payload"]


@pytest.mark.parametrize(
    ("options", "types"),
    [
        (("--step", "finish", "--type", "step.*"), ["step.scheduled", "step.started", "step.done"]),
        (("--type", "workflow.finished", "--type", "loop.done"), ["loop.done", "workflow.finished"]),
        (("--type", "loop.iteration.done"), ["loop.iteration.done"] * 3),
    ],
)
def test_events_are_filtered_by_step_and_type(runs: Runs, options: tuple[str, ...], types: list[str]) -> None:
    lines = look(runs, "events", runs[1].execution_id, "-o", "jsonl", *options).splitlines()

    assert [json.loads(line)["event_type"] for line in lines] == types


def test_events_start_after_a_number_and_follow_ends_with_the_execution(runs: Runs) -> None:
    after = str(runs[1].events - 2)

    lines = look(runs, "events", runs[1].execution_id, "--after", after, "--follow").splitlines()

    assert [line.split()[2] for line in lines] == ["workflow.finished", "playbook.processed"]
    assert call("events", "last", "--follow", "-o", "json", "--db", runs[0])[0] == 2


@pytest.mark.req("EVT-05")
def test_events_can_be_listed_with_legacy_names(runs: Runs) -> None:
    lines = look(runs, "events", runs[1].execution_id, "--names", "legacy", "-o", "jsonl").splitlines()
    names = {json.loads(line)["name"] for line in lines}
    failed = look(runs, "events", "last", "--names", "legacy")

    assert {"WorkflowStarted", "StepStarted", "ToolStarted", "ToolCompleted", "LoopIterationCompleted"} <= names
    assert {"NextEvaluated", "WorkflowFinished", "PlaybookProcessed"} <= names
    assert "ToolErrored" in failed


def test_logs_show_the_source_of_each_line(runs: Runs) -> None:
    lines = look(runs, "logs", runs[1].execution_id).splitlines()

    assert lines[:2] == ["start/warm │ warming up", "start/count │ counting"]
    assert sorted(lines[2:]) == [f"each[{n}]/double │ item {n}" for n in range(3)]
    assert look(runs, "logs", runs[1].execution_id, "--task", "count") == "start/count │ counting\n"
    assert look(runs, "logs", runs[1].execution_id, "--step", "finish") == ""


def test_logs_show_the_error_of_each_attempt(runs: Runs) -> None:
    lines = look(runs, "logs", "last").splitlines()
    entries = [json.loads(line) for line in look(runs, "logs", "last", "-o", "jsonl").splitlines()]

    assert [line for line in lines if line.endswith("│ trying")] == ["start/risky │ trying", "start/risky #2 │ trying"]
    assert sum("✗ error: py.exception: ValueError: no luck" in line for line in lines) == 2
    places = [at for at, line in enumerate(lines) if 'File "start/risky", line' in line]
    assert [lines[at].startswith("start/risky") and "raise ValueError" in lines[at + 1] for at in places] == [True] * 2
    assert [(entry["attempt"], entry["error"]["kind"]) for entry in entries] == [
        (1, "py.exception"),
        (2, "py.exception"),
    ]


@pytest.mark.req("CLI-02")
def test_result_prints_the_result_and_exits_with_the_code_of_the_execution(runs: Runs) -> None:
    _, good, _ = runs

    assert json.loads(look(runs, "result", good.execution_id)) == good.result == {"said": "all done"}
    assert json.loads(look(runs, "result", good.execution_id, "--step", "each")) == [0, 2, 4]
    assert json.loads(look(runs, "result", good.execution_id, "--step", "start")) == {"n": 3}
    code, stdout, stderr = call("result", "last", "--db", runs[0])
    assert (code, stdout) == (1, "")
    assert "retry.exhausted" in stderr
    assert call("result", "last", "--step", "start", "--db", runs[0])[0] == 1
    code, _, stderr = call("result", "last", "--step", "nowhere", "--db", runs[0])
    assert code == 4
    assert 'has no step "nowhere"' in stderr


@pytest.mark.req("CLI-02", "SRV-09")
def test_ctx_prints_the_variables_from_the_log(runs: Runs) -> None:
    _, good, _ = runs

    assert json.loads(look(runs, "ctx", good.execution_id)) == good.ctx == {"seen": {"count": 3}}
    assert look(runs, "ctx", "last") == "{}\n"


def test_logs_are_filtered_by_level_and_always_contain_errors(tmp_path: Path) -> None:
    file, db = tmp_path / "levels.yaml", ("--db", str(tmp_path / "levels.db"))
    code = ["print('INFO:shop:reading')", "print('plain')", "print('WARNING:shop:late')", "print('  more of it')"]
    lines = "; ".join([*code, "raise ValueError"])
    quiet = "{name: a, kind: python, code: \"print('INFO:shop:begun')\"}"
    file.write_text(
        playbook(f'workflow: [{{step: start, tool: [{quiet}, {{name: b, kind: python, code: "{lines}"}}]}}]')
    )
    call("run", str(file), *db)

    shown = call("logs", "last", "--level", "warning", *db)[1].splitlines()
    entries = [json.loads(one) for one in call("logs", "last", "--level", "info", "-o", "jsonl", *db)[1].splitlines()]

    assert shown[:3] == [
        "start/b │ WARNING:shop:late",
        "start/b │   more of it",
        "start/b │ ✗ error: py.exception: ValueError:",
    ]
    assert [entry["stdout"] for entry in entries] == [
        "INFO:shop:begun",
        "INFO:shop:reading\nWARNING:shop:late\n  more of it",
    ]
