"""Backups of a store in SQLite: one archive with the database, its large results and a manifest.

A backup is taken while servers write. The database is copied in one read transaction, which in WAL mode neither waits
for writers nor holds them up. Results are copied after it: a result is stored before an event names it, so all results
of the copied events exist by then.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.base.errors import BackendError, RefusedError
from noetl.base.private_files import FILE_MODE, create, errors_name, make_folder
from noetl.store.sqlite.database import applied, is_store, known_migrations

# Raised when an archive changes so that older programs must not restore it.
FORMAT = 2  # 1 had no tables; an older program would restore an archive without them
_MANIFEST, _DATABASE, _RESULTS = "manifest.json", "store.db", "results/"
# Values are kept as JSON, tables as Parquet; both are named by the hash of their content.
_RESULT = re.compile(r"results/([0-9a-f]{2})/(([0-9a-f]{64})\.(?:json|parquet))")
_CHUNK = 1 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an archive. `migrations` is how far its database is migrated."""

    format: int
    migrations: int
    executions: int
    results: int


def back_up(db: Path, results: Path, archive: Path) -> Manifest:
    """Write the store at `db` with its `results` to `archive`, whole or not at all."""
    if archive.exists():
        raise RefusedError(f"{archive} exists: name a new file for the backup")
    make_folder(archive.absolute().parent)
    with errors_name(archive), tempfile.TemporaryDirectory(dir=archive.absolute().parent, prefix=".backup-") as folder:
        copy = Path(folder) / _DATABASE
        _copy_database(db, copy)
        part = Path(folder) / "archive"
        # Listed after the database was copied, for the reason above.
        files = sorted(
            file
            for file in results.glob("[0-9a-f][0-9a-f]/*")
            if _RESULT.fullmatch(f"{_RESULTS}{file.parent.name}/{file.name}")
        )
        manifest = _manifest(copy, len(files))
        with create(part) as out, tarfile.open(fileobj=out, mode=_mode(archive)) as tar:
            _add_bytes(tar, _MANIFEST, msgspec.json.encode(manifest))
            tar.add(copy, _DATABASE, filter=_private)
            for file in files:
                tar.add(file, f"{_RESULTS}{file.parent.name}/{file.name}", filter=_private)
        # Synced before it gets its name: an archive under its final name is complete, even after a power cut.
        _sync(part)
        part.rename(archive)
    return manifest


def restore(archive: Path, db: Path, results: Path) -> Manifest:
    """Write the store of an archive to `db` and `results`, neither of which may be there yet."""
    # The WAL too: SQLite would replay a WAL that is left beside this name into the restored file.
    for place in (db, db.with_name(db.name + "-wal"), results):
        if place.exists():
            raise RefusedError(f"{place} exists: restore to a new place with --db, or move it away")
    with _open_archive(archive) as tar:
        manifest = _read_manifest(tar, archive)
        part = db.with_name(f".{db.name}.restoring")
        make_folder(db.absolute().parent)
        try:
            for member in tar:
                if member.name == _DATABASE:
                    _write(tar, member, part)
                # Only names of this form are written: a member of a forged archive could lead out of the folder.
                elif (found := _RESULT.fullmatch(member.name)) is not None:
                    _restore_result(tar, member, results / found[1] / found[2], found[3])
            _check_database(part, archive)
            # The database comes last: a store that is there has all of its results.
            part.rename(db)
        finally:
            part.unlink(missing_ok=True)
    return manifest


def _copy_database(db: Path, copy: Path) -> None:
    with closing(sqlite3.connect(f"{db.absolute().as_uri()}?mode=ro", uri=True)) as source:
        if not is_store(source):
            raise BackendError(f"{db} is not a NoETL store")
        with create(copy):
            pass
        with closing(sqlite3.connect(copy)) as target:
            source.backup(target)  # all pages in one step: a copy page by page starts again at every write
            target.execute("PRAGMA journal_mode = DELETE")  # one file, no WAL that could be left behind
    _check_database(copy, db)


def _check_database(file: Path, where: Path) -> None:
    if not file.is_file():
        raise BackendError(f"{where} holds no database")
    with closing(sqlite3.connect(file)) as connection:
        try:
            [(verdict,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.DatabaseError as problem:
            verdict = str(problem)
    if verdict != "ok":
        raise BackendError(f"the database of {where} is damaged: {verdict}")


def _manifest(copy: Path, results: int) -> Manifest:
    with closing(sqlite3.connect(copy)) as connection:
        [executions] = connection.execute("SELECT count(*) FROM execution").fetchone()
        return Manifest(format=FORMAT, migrations=len(applied(connection)), executions=executions, results=results)


def _read_manifest(tar: tarfile.TarFile, archive: Path) -> Manifest:
    try:
        first = tar.next()
        body = tar.extractfile(first) if first is not None and first.name == _MANIFEST else None
        manifest = msgspec.json.decode(body.read(_CHUNK), type=Manifest) if body is not None else None
    except (tarfile.TarError, msgspec.DecodeError, EOFError, OSError) as problem:
        raise BackendError(f"{archive} is not a NoETL backup, or is damaged: {_first_line(problem)}") from problem
    if manifest is None:
        raise BackendError(f"{archive} is not a NoETL backup: it does not begin with {_MANIFEST}")
    known = len(known_migrations())
    if manifest.format > FORMAT or manifest.migrations > known:
        raise BackendError(
            f"{archive} was made by a newer noetl (migration {manifest.migrations}, this one knows {known}): "
            "install that version to restore it"
        )
    return manifest


def _restore_result(tar: tarfile.TarFile, member: tarfile.TarInfo, file: Path, checksum: str) -> None:
    make_folder(file.parent)
    if _write(tar, member, file) != checksum:
        file.unlink()
        raise BackendError(f"the backup is damaged: result {checksum} has other content")


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, file: Path) -> str:
    """Write a member to a private file; its SHA-256."""
    source = tar.extractfile(member) if member.isfile() else None
    if source is None:
        raise BackendError(f"the backup is damaged: {member.name} is no file")
    digest = hashlib.sha256()
    with create(file) as out:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


@contextmanager
def _open_archive(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive) as tar:
            yield tar
    except (tarfile.TarError, EOFError) as problem:
        raise BackendError(f"{archive} is not a NoETL backup, or is damaged: {_first_line(problem)}") from problem
    except FileNotFoundError as problem:
        raise RefusedError(f"there is no file {problem.filename}") from problem


def _first_line(problem: Exception) -> str:
    """tarfile names every compression it has tried, one on a line."""
    return str(problem).split("\n", 1)[0].rstrip(":") or type(problem).__name__


def _mode(archive: Path) -> Any:
    return "w:gz" if archive.suffix in (".gz", ".tgz") else "w"


def _private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member without the names of users of this machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = FILE_MODE
    return member


def _add_bytes(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    member = _private(tarfile.TarInfo(name))
    member.size = len(body)
    tar.addfile(member, io.BytesIO(body))


def _sync(file: Path) -> None:
    handle: IO[bytes]
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
