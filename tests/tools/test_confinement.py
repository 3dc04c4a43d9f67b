"""Confinement: a process that has given up files and connections cannot get them back, in any thread."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.base.errors import ToolError
from noetl.tools import confinement

SCRIPT = """
import os, socket, sys, threading
from noetl.tools.confinement import confine_files, forbid_sockets

inside, outside = sys.argv[1:]
told = []

def attempt(name, work):
    try:
        work()
        told.append(name + ": done")
    except OSError as problem:
        told.append(name + ": " + problem.strerror)

before = threading.Event()
late = threading.Thread(target=lambda: (before.wait(), attempt("socket of an earlier thread", socket.socket)))
late.start()
pair = socket.socketpair()
confine_files([sys.prefix, inside + "/read"], [inside + "/write", inside + "/missing"])
forbid_sockets()
attempt("read", lambda: open(inside + "/read/a").read())
attempt("write where it may read", lambda: open(inside + "/read/a", "w"))
attempt("write", lambda: open(inside + "/write/a", "w").close())
attempt("remove", lambda: os.remove(inside + "/write/a"))
attempt("read outside", lambda: open(outside + "/a").read())
attempt("link", lambda: open(inside + "/write/link").read())
attempt("list outside", lambda: os.listdir(outside))
attempt("write outside", lambda: open(outside + "/b", "w"))
attempt("socket", socket.socket)
attempt("local socket", lambda: socket.socket(socket.AF_UNIX))
attempt("an open connection", lambda: pair[0].send(b"x"))
before.set()
late.join()
print("\\n".join(told))
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="NOT TESTED: Landlock and seccomp are of Linux")
def test_dropped_permissions_cannot_be_regained(tmp_path: Path) -> None:
    for name in ("read", "write", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
    (tmp_path / "write" / "link").symlink_to(tmp_path / "outside" / "a")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / "outside")]
    source = str(Path(confinement.__file__).parents[2])

    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source})

    assert done.stdout.splitlines() == [
        "read: done",
        "write where it may read: Permission denied",
        "write: done",
        "remove: done",
        "read outside: Permission denied",
        "link: Permission denied",
        "list outside: Permission denied",
        "write outside: Permission denied",
        "socket: Operation not permitted",
        "local socket: Operation not permitted",
        "an open connection: done",
        "socket of an earlier thread: Operation not permitted",
    ], done.stderr
    assert sorted(os.listdir(tmp_path / "outside")) == ["a"]


def test_nothing_runs_if_the_kernel_cannot_confine_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")

    with pytest.raises(ToolError) as files:
        confinement.confine_files((), ())
    with pytest.raises(ToolError) as connections:
        confinement.forbid_sockets()

    assert {files.value.kind, connections.value.kind} == {"sandbox.unavailable"}
