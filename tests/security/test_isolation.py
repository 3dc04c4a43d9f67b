"""Attack: code of a playbook without a sandbox that takes what it can: memory, files, kinds, the master key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import RefusedError
from noetl.operations.embedded import RunResult, run
from noetl.tools.files import MAX_BYTES
from noetl.tools.python.child.condition import threads_of_user
from noetl.tools.registry import denied_kinds
from noetl.tools.sandbox import default_limits
from tests.cli.running import call
from tests.engine_script import playbook

KEY = "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2U="


def ran(task: str, **more: Any) -> RunResult:
    return run(playbook("workflow:\n  - step: start\n    tool: [" + task + "]"), db=":memory:", **more)


def python(code: str, spec: str = "{}") -> RunResult:
    lines = code.strip().replace('"', '\\"').replace("\n", "\\n")
    return ran(f'{{name: a, kind: python, code: "{lines}", spec: {spec}}}')


@pytest.mark.req("TOOL-07")
def test_python_has_default_limits_and_an_author_can_set_others() -> None:
    code = """
import resource as r
result = [r.getrlimit(x)[0] for x in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_NPROC, r.RLIMIT_CPU)]
"""
    memory, file, processes, cpu = python(code).result
    own = python(code, "{resources: {memory: 1Gi, file_size: 1Mi, processes: 8}}").result

    assert (memory, file) == (4 << 30, 1 << 30)
    assert 0 < processes < threads_of_user() + 10_000
    assert cpu > 3_000
    assert own[:2] == [1 << 30, 1 << 20]
    assert own[2] < processes


def test_the_cpu_limit_grows_with_the_timeout_and_the_processors() -> None:
    assert default_limits({"timeout": "10h"})["cpu_s"] == 36_000 * (os.cpu_count() or 1)
    assert default_limits({"timeout": {"read": 1}})["cpu_s"] == 3_600


@pytest.mark.req("TOOL-07", "TOOL-05")
@pytest.mark.parametrize("kind", ["python", "duckdb"])
def test_a_script_is_read_from_allowed_folders_only(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    texts = {"python": "result = 1", "duckdb": "select 1 as one"}
    for folder in (here, there):
        (folder / "program").write_text(texts[kind])
    (here / "link").symlink_to(there / "program")
    (here / "long").write_text(texts[kind] + " " * MAX_BYTES)
    os.mkfifo(here / "pipe")
    monkeypatch.chdir(here)

    def read(path: object) -> RunResult:
        return ran(f"{{name: a, kind: {kind}, script: '{path}'}}")

    assert read("program").ok
    assert read(here / "program").ok
    for path, why in (
        (there / "program", "outside the folders"),
        ("../there/program", "outside the folders"),
        ("link", "outside the folders"),
        ("/etc/passwd", "outside the folders"),
        ("long", "longer than 1 MiB"),
        ("pipe", "not a regular file"),
        ("absent", "No such file"),
    ):
        error = read(path).error
        assert error is not None, path
        assert why in error.message


@pytest.mark.req("TOOL-16")
def test_a_denied_kind_does_not_run_even_if_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(playbook("workflow:\n  - step: start\n    tool: [{name: a, kind: python, code: 'result = 1'}]"))

    code, _, stderr = call("run", str(file), "--memory", "--deny", "python,shell")
    assert code != 0
    assert 'tool kind "python" is denied here by the operator' in stderr
    assert call("run", str(file), "--memory", "--deny", "http")[0] == 0
    monkeypatch.setenv("NOETL_DENY", "python")
    assert call("run", str(file), "--memory")[0] != 0


def test_an_unknown_kind_cannot_be_denied() -> None:
    with pytest.raises(RefusedError, match='there is no tool kind "pyhton"'):
        denied_kinds(["pyhton"])


PROTECTED = """
import ctypes, os, sys
from noetl.cli import own_process
from noetl.secrets.encryption import load_master_keys
if os.getuid() == 0:  # root may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # whoever changes its user cannot be read: undone, to begin as others do
own_process.is_own_process = True
print("begun", flush=True)
sys.stdin.readline()
own_process.protect("NOETL_TOKEN")
ours = [name for name in os.environ if name.startswith("NOETL_")]
print(ours, len(load_master_keys(os.environ).newest_id), flush=True)
sys.stdin.readline()
"""


def seen_by_others(pid: int) -> str:
    """What another program of the same user reads of its environment."""
    user, groups = (65534, list[int]()) if os.getuid() == 0 else (None, None)
    done = subprocess.run(
        ["cat", f"/proc/{pid}/environ"],
        capture_output=True,
        text=True,
        check=False,
        user=user,
        group=user,
        extra_groups=groups,
    )
    return done.stdout + done.stderr


@pytest.mark.req("KEY-06")
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_child_processes_cannot_read_the_master_key() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROTECTED],
        env={"PATH": os.environ["PATH"], "NOETL_MASTER_KEY": KEY, "NOETL_TOKEN": "a-token"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = seen_by_others(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        told = process.stdout.readline()
        after = seen_by_others(process.pid)
        process.stdin.close()

    assert KEY in before, "this test shows something"
    assert "Permission denied" in after
    assert KEY not in after
    assert told == "[] 12\n", "it is out of the environment, and known all the same"
