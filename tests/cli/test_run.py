"""`noetl run`: the whole walk from text to result, in a process of its own (CLI-02, WRK-08)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.cli.live import Lines
from noetl.events.events import TAXONOMY
from tests import forked
from tests.cli.running import call
from tests.engine_script import playbook
from tests.playbook_runs import broken, run_here

HELLO = """
workload: {who: world}
workflow:
  - step: start
    tool: {kind: python, args: {who: "{{ workload.who }}"}, code: "result = {'greeting': 'hello ' + who}"}
    next: {arcs: [{step: finish, args: {said: "{{ start.greeting }}"}}]}
  - step: finish
    tool: {kind: noop, args: {said: "{{ args.said }}"}}
"""
FAILING = "workflow: [{step: start, tool: {kind: python, code: 'raise ValueError(3)'}}]"
MOST_MODULES, MOST_COLLECTIONS = 330, 50
SHELL = "workflow: [{step: start, tool: {kind: shell, cmds: 'echo hi'}}]"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, HELLO)


def write(folder: Path, text: str) -> Path:
    path = folder / "play.yaml"
    path.write_text(playbook(text))
    return path


def process(*arguments: str, home: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return forked.run(
        [*forked.NOETL, "run", *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        env={**os.environ, "NOETL_HOME": str(home)},
        check=False,
    )


@pytest.mark.req("CLI-02")
def test_a_run_prints_its_result_its_status_and_its_id(file: Path, tmp_path: Path) -> None:
    done = process(str(file), "--set", "who=you", home=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"said": "hello you"}
    assert "completed" in done.stderr
    assert "execution 0" in done.stderr
    assert (tmp_path / "noetl.db").exists(), "without --db the run is kept in the user's own store"


@pytest.mark.req("CLI-02")
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (HELLO, 0, "completed"),
        (FAILING, 1, "ValueError: 3"),
        ("workflow: [{step: start, next: {arcs: [{step: nowhere}]}}]", 3, "error[E_NEXT_REF]"),
        (SHELL, 4, "--allow shell"),
    ],
)
def test_the_exit_code_shows_how_the_run_ended(tmp_path: Path, text: str, code: int, said: str) -> None:
    exit_code, _, stderr = call("run", str(write(tmp_path, text)), "--memory")

    assert exit_code == code
    assert said in stderr


def test_a_refused_run_leaves_no_store(tmp_path: Path) -> None:
    file = write(tmp_path, SHELL)

    call("run", str(file), "--db", str(tmp_path / "s.db"))

    assert not (tmp_path / "s.db").exists()


def test_json_is_one_object_with_everything_about_the_run(file: Path) -> None:
    code, stdout, stderr = call("run", str(file), "--memory", "-o", "json")

    told = json.loads(stdout)
    assert code == 0
    assert stderr == ""
    assert (told["status"], told["result"]) == ("completed", {"said": "hello world"})
    assert told["execution_id"]


def test_jsonl_prints_every_event_as_it_happens(file: Path) -> None:
    code, stdout, _ = call("run", str(file), "--memory", "-o", "jsonl")

    events = [json.loads(line) for line in stdout.splitlines()]
    assert code == 0
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["event_type"] for event in events} <= set(TAXONOMY)
    assert events[-1]["payload"]["status"] == "completed"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--payload", '{"who": "a"}'), "hello a"),
        (("--payload", '{"who": "a"}', "--set", "who=b"), "hello b"),
        (("--set", 'who="7"'), "hello 7"),
        (("--payload", "@-"), "hello stdin"),
        (("--payload", "@FILE"), "hello file"),
    ],
)
def test_set_options_override_inputs_from_a_payload(
    file: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    given = tmp_path / "in.json"
    given.write_text('{"who": "file"}')
    options = tuple(option.replace("FILE", str(given)) for option in options)

    code, stdout, stderr = call("run", str(file), "--memory", *options, stdin='{"who": "stdin"}')

    assert code == 0, stderr
    assert json.loads(stdout) == {"said": said}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--payload", "{who}"), "not JSON"),
        (("--payload", "[1]"), "a JSON object is needed"),
        (("--payload", "@nowhere.json"), "nowhere.json"),
        (("--set", "who"), "is not key=value"),
        (("--set", "a..b=1"), "is not key=value"),
    ],
)
def test_unreadable_inputs_are_a_usage_error(file: Path, options: tuple[str, ...], said: str) -> None:
    done = process(str(file), "--memory", *options, home=file.parent)

    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("play.yaml", "--resume", "x1"),
        ("--resume", "x1", "--set", "a=1"),
        ("--resume", "x1", "--strict"),
        ("--resume", "x1", "--detach"),
        ("--resume", "x1", "--server", "http://127.0.0.1:9"),
    ],
)
def test_a_file_and_an_execution_exclude_each_other(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert process(*arguments, home=tmp_path).returncode == 2


def test_a_file_beside_an_execution_names_both_and_the_way_out(tmp_path: Path) -> None:
    done = process("play.yaml", "--resume", "x1", home=tmp_path)

    assert "both a playbook (play.yaml) and an execution (--resume x1) are named" in done.stderr
    assert "leave the playbook out" in done.stderr


def test_resuming_an_unknown_execution_is_refused(tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    assert "there is no store" in call("run", "--resume", "x9", "--db", db)[2]
    call("run", str(write(tmp_path, HELLO)), "--db", db)

    code, _, stderr = call("run", "--resume", "x9", "--db", db)

    assert code == 4
    assert 'no execution "x9"' in stderr


@pytest.mark.parametrize("options", [("--allow", "shell"), ("--allow", "script,shell")])
def test_kinds_that_run_programs_are_allowed_one_by_one_or_in_a_list(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, stdout, stderr = call("run", str(write(tmp_path, SHELL)), "--memory", *options)

    assert code == 0, stderr
    assert "hi" in stdout
    assert call("run", "x.yaml", "--allow", "http")[0] == 2


def test_the_settings_can_allow_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(write(tmp_path, SHELL))
    monkeypatch.setenv("NOETL_ALLOW", "shell")
    assert call("run", file, "--memory")[0] == 0

    monkeypatch.setenv("NOETL_ALLOW", "shel")
    code, _, stderr = call("run", file, "--memory", "--allow", "shell")

    assert code == 4
    assert 'allow: "shel" is not one of shell, script, container, mcp' in stderr


def test_a_quiet_run_prints_only_its_result(tmp_path: Path, file: Path) -> None:
    assert call("run", str(file), "--memory", "-q") == (0, '{\n  "said": "hello world"\n}\n', "")
    assert "ValueError: 3" in call("run", str(write(tmp_path, FAILING)), "--memory", "-q")[2]


def test_a_run_continues_when_its_output_pipe_is_closed(file: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = forked.run(
        [*forked.NOETL, "run", str(file), "--memory"],
        stdout=subprocess.PIPE,
        stderr=writing,
        check=False,
    )
    os.close(writing)

    assert done.returncode == 0
    assert json.loads(done.stdout) == {"said": "hello world"}


@pytest.mark.req("CLI-02")
def test_a_playbook_that_was_run_once_can_be_run_by_its_path(file: Path, tmp_path: Path) -> None:
    db = str(tmp_path / "s.db")
    call("run", str(file), "--db", db)
    [row] = json.loads(call("executions", "-o", "json", "--db", db)[1])

    code, stdout, stderr = call("run", row["path"], "--db", db, "--set", "who=again")

    assert code == 0, stderr
    assert json.loads(stdout) == {"said": "hello again"}
    assert call("run", row["path"], "--version", "1", "--db", db)[0] == 0
    code, _, stderr = call("run", row["path"], "--version", "7", "--db", db)
    assert code == 2
    assert 'no version "7" of such a playbook' in stderr
    assert call("run", str(file), "--version", "1", "--db", db)[0] == 2


def test_a_name_that_is_neither_file_nor_playbook_is_reported(tmp_path: Path) -> None:
    code, _, stderr = call("run", "demo/nothing", "--db", str(tmp_path / "s.db"))

    assert code == 2
    assert "demo/nothing: there is no such file" in stderr
    assert not (tmp_path / "s.db").exists()


def test_a_run_imports_nothing_that_its_playbook_does_not_use(file: Path) -> None:
    code = (
        "import sys; from noetl.cli.main import run; code = run(sys.argv[1:]);"
        "unused = ('jinja2', 'rich', 'html', 'noetl.language.proving', 'noetl.language.v2_case.reader',"
        " 'noetl.templates.sql.lexer', 'click.shell_completion', 'shutil', 'tempfile', 'tomllib', 'difflib',"
        " 'platformdirs');"
        "print(code, [module for module in unused if module in sys.modules],"
        " sum(module.startswith('noetl') for module in sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(file), "--memory"],
        capture_output=True,
        text=True,
        check=True,
        cwd=file.parent,
        # Without NOETL_HOME, as most run it: the folders of the user are looked up then.
        env={name: value for name, value in os.environ.items() if name != "NOETL_HOME"} | {"HOME": str(file.parent)},
    )

    how, _, own = done.stdout.splitlines()[-1].rpartition(" ")
    assert how == "0 []"
    assert int(own) <= MOST_MODULES, "each costs a quarter of a millisecond, in every run"


def test_a_run_collects_no_garbage_before_its_engine_is_loaded(file: Path) -> None:
    code = (
        "import atexit, gc, sys; from noetl.cli.main import main;"
        "atexit.register(lambda: print([each['collections'] for each in gc.get_stats()], gc.isenabled())); main()"
    )
    before = "import gc; print([each['collections'] for each in gc.get_stats()])"

    ran, bare = (
        subprocess.run(
            [sys.executable, "-c", one, "run", str(file), "--memory"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        for one in (code, before)
    )

    assert ran.endswith("True"), "a long run needs it"
    started, made = (int(one.strip("[").split(",")[0]) for one in (bare, ran))
    assert made - started < MOST_COLLECTIONS


def test_lines_are_plain_without_a_terminal_and_show_retries_and_failures() -> None:
    lines: list[str] = []
    ran = run_here(
        """
workflow:
  - step: start
    tool:
      name: t
      kind: python
      code: x
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 3}}]}}
""",
        t=broken("py.exception", "it\x1b[31m broke\nbadly"),
    )

    Lines(lines.append)(ran.events)

    text = "\n".join(lines)
    assert "again in 3 s (attempt 2)" in text
    assert "✗ failed: retry.exhausted" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("variables", "coloured"), [({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False), ({}, False)]
)
def test_colour_is_used_on_terminals_and_on_request(file: Path, variables: dict[str, str], coloured: bool) -> None:
    done = forked.run(
        [*forked.NOETL, "run", str(file), "--memory"],
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.endswith("_COLOR")} | variables,
        check=True,
    )

    assert ("\x1b[" in done.stderr) is coloured
    assert "\x1b[" not in done.stdout
