"""Results in files, named by the SHA-256 of their content, and synced to disk before an event refers to them (RES-01,
RES-02)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError, ToolError, error_text
from noetl.base.private_files import create, make_folder
from noetl.events.outcomes import PARQUET, Reference

STORE = "files"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"([0-9a-f]{64})\.(json|parquet)")
_BLOCK_BYTES = 1 << 20


class FileResults:
    """One file per value below `folder`; an equal value is stored once."""

    store, is_outside = STORE, False

    def __init__(self, folder: Path) -> None:
        self.folder = self._folder = folder

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        return referring(STORE, self._store_body(body), value, body)

    def _store_body(self, body: bytes) -> str:
        checksum = hashlib.sha256(body).hexdigest()
        try:
            self._write(self._folder / key_of(checksum), (body,), len(body))
        except OSError as problem:
            raise BackendError(f"the result store {self._folder} failed: {error_text(problem)}") from problem
        return checksum

    async def send(self, body: bytes) -> None:
        await asyncio.to_thread(self._store_body, body)

    async def fetch(self, checksum: str) -> bytes:
        return await asyncio.to_thread(self.body, checksum)

    async def send_file(self, file: Path) -> str:
        return await asyncio.to_thread(self._store_file, file)

    def _store_file(self, file: Path) -> str:
        try:
            checksum, size = file_checksum(file)
            with file.open("rb") as source:
                self._write(self._folder / table_key_of(checksum), blocks_of(source), size)
        except OSError as problem:
            raise BackendError(f"the result store {self._folder} failed: {error_text(problem)}") from problem
        return checksum

    async def fetch_file(self, checksum: str, into: Path) -> None:
        await asyncio.to_thread(self._copy_file, checksum, into)

    def _copy_file(self, checksum: str, into: Path) -> None:
        # A copy, not a link: code of a playbook reads the file, and could write to it.
        _copy(self.table_file(checksum), into)
        verify_file(checksum, into)

    def table_file(self, checksum: str) -> Path:
        path = self._folder / table_key_of(checksum)
        if not path.exists() and not _put_back(path.parent.glob(f"{path.name}.*.gone")):
            raise missing_table(checksum)
        return path

    def _write(self, path: Path, body: Iterable[bytes], size: int) -> None:
        with suppress(FileNotFoundError):
            # Otherwise the file was cut short by somebody else, and is written again.
            if path.stat().st_size == size:
                os.utime(path)  # retention deletes only old files: an event is about to refer to this one
                return
        make_folder(path.parent)
        # By process and thread, in the same folder: a rename is atomic only within one file system.
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")  # others may be writing the same
        try:
            with create(part) as file:
                file.writelines(body)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)  # if the disk is full, half a file would fill it further
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name must survive a power cut too, not only the bytes
        finally:
            os.close(folder)

    def load(self, reference: Reference) -> Any:
        # found by its hash and not by the key of the reference: a worker may have sent the reference, and the key is a
        # file name
        return msgspec.json.decode(self.body(reference.checksum))

    def body(self, checksum: str) -> bytes:
        key = key_of(checksum)
        try:
            body = self._read(self._folder / key)
        except OSError:
            raise ToolError("result.missing", f"the stored result {key} cannot be read") from None
        return verified(checksum, body)

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            if not _put_back(path.parent.glob(f"{path.stem}.*.gone")):
                raise
            return path.read_bytes()

    def untouched(self, *, before: float) -> list[str]:
        found: list[str] = []
        for folder in self._folder.glob("[0-9a-f][0-9a-f]"):
            _put_back(folder.glob("*.gone"))
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime >= before:
                            continue
                        if stored := _FILE.fullmatch(entry.name):
                            found.append(stored[1])
                        elif entry.name.endswith(".part"):
                            os.unlink(entry.path)  # the process that wrote it has died
        return found

    def drop(self, checksum: str, *, before: float) -> bool:
        """Renames the file before it deletes it. A `put` at the same time either touched the file before, which is
        noticed, or finds none and writes it again."""
        # A checksum names a value or a table; retention deletes both alike.
        return any(self._drop(self._folder / key, before) for key in (key_of(checksum), table_key_of(checksum)))

    @staticmethod
    def _drop(path: Path, before: float) -> bool:
        aside = path.with_name(f"{path.name}.{os.getpid()}.gone")
        try:
            # A rename is atomic: `put` either touched the file before it, which its time shows below, or finds no file
            # and writes.
            path.rename(aside)
        except FileNotFoundError:
            return False
        crash_point("retention.collecting")
        with suppress(FileNotFoundError):  # another process assumed our death and put it back (`_put_back`)
            if aside.stat().st_mtime < before:
                aside.unlink()
                return True
            aside.replace(path)
        return False

    def close(self) -> None:
        """Nothing to close."""


def _put_back(aside: Iterable[Path]) -> bool:
    """Rename files back that a process moved aside to delete and left there when it died; returns whether there were
    any. An equal value may have been put meanwhile."""
    found = False
    for path in aside:
        with suppress(FileNotFoundError):
            with suppress(FileExistsError):  # an equal value was put meanwhile: keep that file
                os.link(path, path.with_name(_name_before(path.name)))
            path.unlink()
            found = True
    return found


def _name_before(aside: str) -> str:
    """The name before a file was moved aside. Programs before tables wrote CHECKSUM.PID.gone, without its kind."""
    checksum, kind = aside.split(".")[:2]
    return f"{checksum}.{'json' if kind.isdecimal() else kind}"


class MemoryResults:
    """The same, for runs that need not outlive their process."""

    store, is_outside = "memory", False

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}
        self._tables: Path | None = None  # made for the first table, and gone with this object

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        checksum = self._store_body(body)
        return Reference(
            store=self.store, key=checksum, checksum=checksum, size=len(body), schema_hint=schema_hint(value)
        )

    def _store_body(self, body: bytes) -> str:
        checksum = hashlib.sha256(body).hexdigest()
        self._bodies[checksum], self._put_at[checksum] = body, time.time()
        return checksum

    async def send(self, body: bytes) -> None:
        self._store_body(body)

    async def fetch(self, checksum: str) -> bytes:
        return self.body(checksum)

    async def send_file(self, file: Path) -> str:
        if self._tables is None:
            from shutil import rmtree
            from tempfile import mkdtemp

            self._tables = Path(mkdtemp(prefix="noetl-tables-"))
            self._removal = weakref.finalize(self, rmtree, self._tables, ignore_errors=True)
        checksum, _ = file_checksum(file)
        _copy(file, self._tables / checksum)
        self._put_at[checksum] = time.time()
        return checksum

    async def fetch_file(self, checksum: str, into: Path) -> None:
        _copy(self.table_file(checksum), into)
        verify_file(checksum, into)

    def table_file(self, checksum: str) -> Path:
        if not is_checksum(checksum) or self._tables is None or not (self._tables / checksum).is_file():
            raise missing_table(checksum)
        return self._tables / checksum

    def load(self, reference: Reference) -> Any:
        return msgspec.json.decode(self.body(reference.checksum))

    def body(self, checksum: str) -> bytes:
        try:
            return verified(checksum, self._bodies[checksum])
        except KeyError:
            raise ToolError("result.missing", f"the stored result {checksum} is gone") from None

    def untouched(self, *, before: float) -> list[str]:
        return [checksum for checksum, at in self._put_at.items() if at < before]

    def drop(self, checksum: str, *, before: float) -> bool:
        # Put again since it was listed: an event is about to refer to it.
        if self._put_at.get(checksum, before) >= before:
            return False
        if self._put_at.pop(checksum, None) is None:
            return False
        if self._bodies.pop(checksum, None) is None and self._tables is not None:
            (self._tables / checksum).unlink(missing_ok=True)
        return True

    def close(self) -> None:
        if self._tables is not None:
            self._removal()


def is_checksum(text: str) -> bool:
    return _CHECKSUM.fullmatch(text) is not None


def key_of(checksum: str) -> str:
    """Where a value is kept, below the folder of a store."""
    if not is_checksum(checksum):
        raise ToolError("result.missing", f"{checksum!r} is not the checksum of a stored result")
    return f"{checksum[:2]}/{checksum}.json"


def table_key_of(checksum: str) -> str:
    """The same for a table. The name differs, so that a table is never read as a value: a value is read whole."""
    return key_of(checksum).removesuffix(".json") + ".parquet"


def table_reference(store: str, checksum: str, size: int) -> Reference:
    return Reference(
        store=store,
        key=table_key_of(checksum),
        checksum=checksum,
        size=size,
        schema_hint="table",
        media_type=PARQUET,
    )


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def file_checksum(file: Path) -> tuple[str, int]:
    """The SHA-256 of a file, and its size."""
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as source:
        for block in blocks_of(source):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def verify_file(checksum: str, file: Path) -> None:
    if file_checksum(file)[0] != checksum:
        raise ToolError("result.corrupt", f"the stored table {checksum} differs from what was written")


def missing_table(checksum: str) -> ToolError:
    return ToolError("result.missing", f"the stored table {checksum} cannot be read")


def referring(store: str, checksum: str, value: Any, body: bytes) -> Reference:
    """The reference of a value, in a store whose keys are made by `key_of`."""
    return Reference(
        store=store, key=key_of(checksum), checksum=checksum, size=len(body), schema_hint=schema_hint(value)
    )


def verified(checksum: str, body: bytes) -> bytes:
    """The body, if it is what was stored."""
    if hashlib.sha256(body).hexdigest() != checksum:
        raise ToolError("result.corrupt", f"the stored result {checksum} differs from what was written")
    return body


def decoded_body(reference: Reference, body: bytes) -> Any:
    """The value in `body`, if it is the one that was stored."""
    return msgspec.json.decode(verified(reference.checksum, body))


def schema_hint(value: Any) -> str:
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case _:
            return "json"


def _copy(file: Path, into: Path) -> None:
    # Loaded here: with its archives it is a dozen modules, and few runs keep tables.
    from shutil import copyfile

    copyfile(file, into)
