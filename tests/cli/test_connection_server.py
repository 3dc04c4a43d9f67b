"""The commands that look and steer, on a server: the same words, the same exit codes (CLI-02)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.cli.processes_here import SLOW, Here, here
from tests.waiting import until

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
QUICK = SLOW.replace("tests/slow", "tests/quick").replace("time.sleep(s); result = 1", "print('here'); result = s + 1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("commands")
    with here(folder) as place:
        place.server("--workers-in-process", "4", "--context", "here")
        (folder / "quick.yaml").write_text(QUICK)
        (folder / "slow.yaml").write_text(SLOW)
        (folder / "broken.yaml").write_text(QUICK.replace("workflow", "workflows"))
        yield place


@pytest.mark.req("CLI-02")
def test_a_file_runs_on_the_server_and_its_execution_is_read_from_there(place: Here) -> None:
    ran = place.call("run", "quick.yaml", "--server", "here", "--set", "s=41", "-o", "json")
    told = json.loads(ran.stdout)

    assert (ran.returncode, told["status"], told["result"]) == (0, "completed", "and more")
    given = told["execution_id"][:13]
    assert json.loads(place.call("result", given, "--step", "start", "--server", "here").stdout) == 42
    assert place.call("logs", given, "--server", "here").stdout == "start/wait │ here\n"
    assert "completed" in place.call("status", given, "--server", "here").stdout
    assert json.loads(place.call("ctx", given, "--server", "here").stdout) == {}
    lines = place.call("events", given, "-o", "jsonl", "--server", "here").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    listed = place.call("executions", "--path", "tests/quick", "-o", "id", "--server", "here").stdout.split()
    assert told["execution_id"] in listed
    shown = place.call("catalog", "show", "tests/quick", "--server", "here").stdout
    assert shown == QUICK


@pytest.mark.req("CLI-02")
def test_a_registered_playbook_runs_on_the_configured_server_by_its_path(place: Here) -> None:
    assert place.call("register", "quick.yaml", "--server", "here").stdout == "tests/quick version 1\n"
    ran = place.call("run", "tests/quick", "--quiet", NOETL_SERVER="here")

    assert (ran.returncode, ran.stdout) == (0, "and more\n")


@pytest.mark.req("TMR-01")
def test_running_a_file_leaves_the_schedule_of_its_path_unchanged(place: Here) -> None:
    nightly = QUICK.replace("tests/quick", "tests/nightly").replace(
        "workflow:", 'trigger: { timer: { cron: "0 3 * * *" } }\nworkflow:'
    )
    (place.folder / "nightly.yaml").write_text(nightly)
    (place.folder / "draft.yaml").write_text(nightly.replace("0 3 * * *", "* * * * *"))
    place.call("register", "nightly.yaml", "--server", "here")

    ran = place.call("run", "draft.yaml", "--server", "here")

    assert (ran.returncode, ran.stdout) == (0, "and more\n")
    assert "runs tests/nightly version 2 once; its trigger is not set by this" in ran.stderr
    (schedule,) = json.loads(place.call("schedule", "list", "--server", "here", "-o", "json").stdout)
    assert (schedule["cron"], schedule["version"]) == ("0 3 * * *", 1)
    place.call("register", "draft.yaml", "--server", "here")
    (schedule,) = json.loads(place.call("schedule", "list", "--server", "here", "-o", "json").stdout)
    assert (schedule["cron"], schedule["version"]) == ("* * * * *", 2)


def test_a_detached_run_prints_its_id_and_is_controlled_later(place: Here) -> None:
    given = place.call("run", "slow.yaml", "--set", "s=600", "--server", "here", "--detach").stdout.strip()

    assert place.call("pause", given, "--server", "here").stdout == f"paused execution {given}\n"
    assert "was paused already" in place.call("pause", given, "--server", "here").stdout
    assert place.call("resume", given, "--server", "here").stdout == f"resumed execution {given}\n"
    assert place.call("cancel", given, "--server", "here").stdout == f"cancelled execution {given}\n"
    assert place.call("result", given, "--server", "here").returncode == 5
    assert place.call("cancel", given, "--server", "here").returncode == 4


def test_ctrl_c_detaches_from_a_run_and_prints_how_to_watch_it_again(place: Here) -> None:
    child = place.spawn("run", "slow.yaml", "--set", "s=600", "--server", "here")
    log = place.folder / f"{len(place.children) - 1}-run.log"
    until(lambda: "start" in log.read_text() and "started" in log.read_text())
    child.send_signal(signal.SIGINT)

    assert child.wait(110) == 130
    said = log.read_text()
    assert "goes on at http://127.0.0.1" in said
    assert "noetl watch" in said
    given = said.partition("noetl cancel ")[2].split()[0]
    assert place.call("status", given, "-o", "json", "--server", "here").stdout.count('"running"') >= 1
    assert place.call("cancel", given, "--server", "here").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "broken.yaml", "--server", "here"], 3, "broken.yaml"),
        (["run", "tests/nobody", "--server", "here"], 4, "there is no playbook"),
        (["status", "nobody", "--server", "here"], 4, "no execution"),
        (["run", "quick.yaml", "--server", "here", "--memory"], 2, "--memory"),
        (["run", "quick.yaml", "--detach"], 2, "--detach"),
        (["pool", "list"], 4, "no server is selected"),
        (
            ["executions", "--server", "her"],
            4,
            'there is no context "her"; the contexts are here; noetl context add NAME URL',
        ),
    ],
)
def test_an_impossible_request_prints_one_sentence(place: Here, arguments: list[str], code: int, words: str) -> None:
    done = place.call(*arguments)

    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stderr


def test_an_unknown_token_is_distinguished_from_a_missing_token(place: Here) -> None:
    url = json.loads(place.call("server", "status", "-o", "json").stdout)[0]["url"]

    wrong = place.call("executions", "--server", url, NOETL_TOKEN="noetl_first_wrong")

    assert wrong.returncode == 4
    assert f"does not accept the token: it is unknown, expired or revoked: noetl login {url}" in wrong.stderr


def test_a_tool_that_no_worker_allows_is_refused_with_worker_advice(place: Here) -> None:
    (place.folder / "shell.yaml").write_text(QUICK.replace("kind: python", "kind: shell").replace("code:", "command:"))

    refused = place.call("run", "shell.yaml", "--server", "here")

    assert refused.returncode == 4
    assert 'no worker of this server can run it: tool kind "shell"' in refused.stderr


PRINTS = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: prints, path: tests/prints }
workflow:
  - step: start
    tool:
      - name: load
        kind: python
        args: { gate: "{{ workload.gate }}" }
        code: |
          import pathlib, time
          print("reading page 1")
          while not pathlib.Path(gate).exists():
              time.sleep(0.02)
          print("reading page 2")
workload: { gate: "" }
"""


def test_followed_logs_show_each_line_once_while_a_task_prints(place: Here) -> None:
    gate = place.folder / "gate"
    (place.folder / "prints.yaml").write_text(PRINTS)
    set_gate = ("--set", f"gate={gate}")
    given = place.call("run", "prints.yaml", *set_gate, "--server", "here", "--detach").stdout.strip()
    following = place.spawn("logs", given, "--follow", "--server", "here")
    (log,) = place.folder.glob(f"{len(place.children) - 1}-logs.log")
    until(lambda: "start/load │ reading page 1\n" in log.read_text())
    gate.touch()

    assert following.wait(110) == 0
    assert log.read_text() == "start/load │ reading page 1\nstart/load │ reading page 2\n"
