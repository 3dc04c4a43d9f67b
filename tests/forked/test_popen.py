"""A forked `noetl` is what an executed one would be: output, code, environment, folder, signals, session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.forked.messages import Request
from tests.forked.popen import EXECUTES, Template

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: here, path: tests/here }
workflow:
  - step: start
    tool: [{ name: wait, kind: python, code: "import time; time.sleep(600)" }]
"""


@pytest.fixture(params=["forked", "executed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "executed":
        monkeypatch.setenv(EXECUTES, "1")
    else:
        monkeypatch.delenv(EXECUTES, raising=False)
    return str(request.param)


def test_a_forked_process_writes_ends_and_fails_like_the_program(way: str, tmp_path: Path) -> None:
    good = forked.run([*forked.NOETL, "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("noetl ")
    bad = forked.run([*forked.NOETL, "check", "nowhere.yaml"], capture_output=True, text=True, cwd=tmp_path)
    assert bad.returncode == 2
    assert "nowhere.yaml" in bad.stderr
    read = forked.run([*forked.NOETL, "check", "-"], input=PLAYBOOK, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr


def test_a_forked_process_has_its_environment_and_folder(way: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(PLAYBOOK.replace("time.sleep(600)", "").replace("import time;", "result = 1"))
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home"), "NOETL_DB": "mine.db"}
    done = forked.run([*forked.NOETL, "run", "here.yaml", "--quiet"], env=environment, cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "mine.db").exists()


def test_a_forked_process_receives_signals_and_reports_its_exit_code(way: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(PLAYBOOK)
    command = [*forked.NOETL, "run", "here.yaml", "--memory"]
    with forked.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline()
        assert process.poll() is None
        assert os.getsid(process.pid) == process.pid
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_other_programs_are_executed(tmp_path: Path) -> None:
    other = forked.run([sys.executable, "-c", "print('other')"], capture_output=True, text=True)
    assert other.stdout == "other\n"
    wrong = {**os.environ, "NOETL_CRASH_AT": "nowhere"}  # read by a module while it is imported
    (tmp_path / "here.yaml").write_text(PLAYBOOK)
    command = [*forked.NOETL, "run", "here.yaml", "--memory"]
    done = forked.run(command, env=wrong, cwd=tmp_path, capture_output=True, text=True)
    assert "nowhere" in done.stderr


def test_forked_processes_end_with_their_template(tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(PLAYBOOK)
    template = Template()
    end, told = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    arguments = ["run", "here.yaml", "--memory"]
    template.fork(Request(arguments, dict(os.environ), str(tmp_path), False), (nothing, nothing, nothing, told))
    os.close(told)
    os.close(nothing)
    template.end()
    assert os.read(end, 64) == b""  # nobody holds the other side
    os.close(end)
