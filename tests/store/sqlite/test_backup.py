"""Backups of a store in a file: taken while it is written, restored whole or refused."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import threading
from pathlib import Path

import duckdb
import pytest

from noetl.base.errors import BackendError, RefusedError
from noetl.base.settings import results_folder
from noetl.operations.embedded import run
from noetl.store.results.files import FileResults
from noetl.store.sqlite.backup import back_up, restore
from tests.cli.running import call
from tests.engine_script import playbook

LARGE = """
workflow:
  - step: start
    tool: {kind: python, code: "result = {'rows': ['x' * 100] * 2000, 'n': n}", args: {n: "{{ workload.n }}"}}
"""


def made(db: Path, number: int = 1) -> None:
    """Executions whose result is too large for the log."""
    for n in range(number):
        assert run(playbook(LARGE), {"n": n}, db=db).ok


def restored(archive: Path, folder: Path) -> Path:
    db = folder / "restored.db"
    restore(archive, db, results_folder(db))
    return db


def test_a_restored_store_has_every_execution_and_result(tmp_path: Path) -> None:
    made(tmp_path / "a.db", 2)

    manifest = back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar.gz")
    db = restored(tmp_path / "b.tar.gz", tmp_path)

    assert (manifest.executions, manifest.results) == (2, 2)
    code, out, _ = call("db", "check", "--db", str(db), "-o", "json")
    assert (code, json.loads(out)["compared"]) == (0, 2)
    code, out, _ = call("result", "--db", str(db), "last")
    assert (code, len(json.loads(out)["rows"])) == (0, 2000)


def test_a_stored_table_can_be_read_after_a_restore(tmp_path: Path) -> None:
    query = "{kind: duckdb, query: SELECT range AS id FROM range(3000), spec: {rows: parquet}}"
    assert run(playbook(f"workflow: [{{step: start, tool: {query}}}]"), db=tmp_path / "a.db").ok

    manifest = back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")
    db = restored(tmp_path / "b.tar", tmp_path)

    assert manifest.results == 1
    code, out, _ = call("result", "--db", str(db), "last")
    assert code == 0
    reference = json.loads(out)["ref"]
    assert duckdb.read_parquet(str(results_folder(db) / reference["key"])).shape == (3000, 1)


def test_a_backup_during_writes_contains_all_earlier_commits(tmp_path: Path) -> None:
    db, more, stop = tmp_path / "a.db", [0], threading.Event()
    made(db)

    def write() -> None:
        while not stop.is_set():
            made(db)
            more[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    try:
        for number in range(5):
            before = 1 + more[0]
            archive = tmp_path / f"{number}.tar"
            counts.append((before, back_up(db, results_folder(db), archive).executions))
    finally:
        stop.set()
        writer.join()

    assert all(before <= found for before, found in counts)
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        code, out, _ = call("db", "check", "--db", str(restored(tmp_path / f"{number}.tar", tmp_path / str(number))))
        assert code == 0, out


def test_backup_and_restore_overwrite_nothing(tmp_path: Path) -> None:
    made(tmp_path / "a.db")
    back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")

    with pytest.raises(RefusedError, match=r"b\.tar exists"):
        back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")
    with pytest.raises(RefusedError, match=r"a\.db exists"):
        restore(tmp_path / "b.tar", tmp_path / "a.db", tmp_path / "elsewhere")


def changed(archive: Path, name: str, body: bytes) -> None:
    """The archive with other content of the members whose names begin so."""
    with tarfile.open(archive) as tar:
        members = [(one, tar.extractfile(one)) for one in tar]
        texts = [
            (one.name, body if one.name.startswith(name) else (file.read() if file else b"")) for one, file in members
        ]
    with tarfile.open(archive, "w") as tar:
        for each, text in texts:
            member = tarfile.TarInfo(each)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("results/", b'"other"', "has other content"),
        ("store.db", b"no database", "is damaged"),
        ("manifest.json", b"{", "is damaged"),
        ("manifest.json", b'{"format":1,"migrations":999,"executions":1,"results":0}', "newer noetl"),
        ("manifest.json", b'{"format":3,"migrations":1,"executions":1,"results":0}', "newer noetl"),
    ],
)
def test_a_damaged_or_newer_backup_restores_nothing(name: str, body: bytes, why: str, tmp_path: Path) -> None:
    made(tmp_path / "a.db")
    back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")
    changed(tmp_path / "b.tar", name, body)

    with pytest.raises(BackendError, match=why):
        restored(tmp_path / "b.tar", tmp_path)

    assert not (tmp_path / "restored.db").exists()


def test_other_files_in_an_archive_are_not_extracted(tmp_path: Path) -> None:
    made(tmp_path / "a.db")
    back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar", "a") as tar:
        for name in ("../escaped", "results/../../escaped", "/tmp/escaped"):
            tar.addfile(tarfile.TarInfo(name))
    (tmp_path / "in").mkdir()

    restored(tmp_path / "b.tar", tmp_path / "in")

    assert not list(tmp_path.rglob("escaped"))


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()

    with pytest.raises(BackendError, match="not a NoETL store"):
        back_up(tmp_path / "other.db", tmp_path / "none", tmp_path / "b.tar")


def test_archive_and_restored_files_are_private(tmp_path: Path) -> None:
    made(tmp_path / "a.db")
    back_up(tmp_path / "a.db", results_folder(tmp_path / "a.db"), tmp_path / "b.tar")

    db = restored(tmp_path / "b.tar", tmp_path)

    files = [
        tmp_path / "b.tar",
        db,
        *(one for one in FileResults(results_folder(db)).folder.rglob("*") if one.is_file()),
    ]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
