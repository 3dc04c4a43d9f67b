"""A store that is locked, truncated, not a store, or of a newer version: one sentence, exit code 4, and the file is
unchanged."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.killing import log_of
from tests.faults.processes import begun, ended, noetl, written

SMALL = """
workflow:
  - step: start
    tool: {kind: noop, args: {x: 1}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path, SMALL)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def renew(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migration VALUES (99, '0099_later', 'x')")
    connection.close()


def be_other(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE migration (id INTEGER)")  # others have such tables too
    connection.close()


def be_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("command", [("run", "play.yaml"), ("run", "--resume", "last"), ("executions",)], ids=" ".join)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, "is damaged or cut short"),
        (lambda path: path.write_bytes(b"no database at all, " * 400), "is not a NoETL store"),
        (lambda path: path.write_text("short"), "is not a NoETL store"),
        (renew, "was written by a newer noetl (it is at migration 99, this program knows"),
        (be_folder, "s.db"),
        (be_other, "is not a NoETL store"),
    ],
    ids=["cut short", "garbage", "short garbage", "newer", "a folder", "another program's"],
)
def test_an_unusable_store_is_reported_in_one_sentence(
    tmp_path: Path, file: str, command: tuple[str, ...], spoil: Callable[[Path], None], said: str
) -> None:
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0
    path = tmp_path / "s.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None

    refused = noetl(*command, "--db", "s.db", cwd=tmp_path)

    assert refused.code == 4, refused.stderr
    assert refused.stderr.startswith("error: ")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1, "one sentence"
    assert path.is_dir() or path.read_bytes() == before, "what cannot be read is not changed"


def test_an_empty_file_becomes_a_store(tmp_path: Path, file: str) -> None:
    (tmp_path / "s.db").touch()

    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0


def test_a_path_below_a_file_is_refused(tmp_path: Path, file: str) -> None:
    refused = noetl("run", file, "--db", f"{file}/s.db", cwd=tmp_path)

    assert refused.code == 4
    assert refused.stderr.startswith(f"error: the store {file}/s.db cannot be opened: ")


def test_a_lock_that_is_released_in_time_is_waited_for(tmp_path: Path, file: str) -> None:
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0
    lock = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")

    with begun("run", file, "--db", "s.db", "-q", cwd=tmp_path) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.0)
        lock.execute("ROLLBACK")
        done = ended(waiting)
    lock.close()

    assert done.code == 0, done.stderr
    assert len(log_of(tmp_path)) == 2


IMPATIENT = "from noetl.store.sqlite import store\nstore._BUSY_MS = 500\n"  # before anything of the process runs


def test_a_persistent_lock_stops_the_run_and_it_can_be_resumed(tmp_path: Path) -> None:
    """The lock comes while a task runs, so there is something to lose."""
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    file = written(
        tmp_path,
        """
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "print('one', file=open('ledger', 'a'))"}
      - name: two
        kind: python
        code: |
          import os, time
          print('two', file=open('ledger', 'a'))
          while not os.path.exists('gate'):
              time.sleep(0.01)
          result = 'through'
""",
    )
    with begun("run", file, "--db", "s.db", cwd=tmp_path, environment={"PYTHONPATH": str(tmp_path)}) as locked:
        ledger = tmp_path / "ledger"
        while not ledger.exists() or ledger.read_text().split() != ["one", "two"]:
            assert locked.poll() is None
            time.sleep(0.01)
        lock = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        (tmp_path / "gate").touch()
        stopped = ended(locked)
    lock.execute("ROLLBACK")
    lock.close()

    assert stopped.code == 4
    assert stopped.problem == "error: the store s.db is locked by another program: try again when that has ended"
    assert stopped.sentence.startswith("resume it with: noetl run --db s.db --resume ")
    done = noetl("run", "--db", "s.db", "--resume", "last", "-q", cwd=tmp_path)
    assert (done.code, done.stdout) == (0, "through\n")
    assert ledger.read_text().split() == ["one", "two", "two"], "only what could not be recorded is done again"
