"""Results in files, named by the SHA-256 of their content and synced before anybody names them (RES-01, RES-02)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError, ToolError
from noetl.base.private_files import create, make_folder
from noetl.events.references import Reference

STORE = "files"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[0-9a-f]{64}\.json")


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
            self._write(self._folder / key_of(checksum), body)
        except OSError as problem:
            raise BackendError(f"the result store {self._folder} failed: {problem}") from problem
        return checksum

    async def send(self, body: bytes) -> None:
        await asyncio.to_thread(self._store_body, body)

    async def fetch(self, checksum: str) -> bytes:
        return await asyncio.to_thread(self.body, checksum)

    def _write(self, path: Path, body: bytes) -> None:
        with suppress(FileNotFoundError):
            if path.stat().st_size == len(body):  # one that was cut short behind our back is written anew
                os.utime(path)  # whoever collects what nobody names sees that somebody is about to name it
                return
        make_folder(path.parent)
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")  # others may be writing the same
        try:
            with create(part) as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)  # half a file would only take the room that was missing
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name must outlive a power cut as well as the bytes
        finally:
            os.close(folder)

    def load(self, reference: Reference) -> Any:
        # by its content, not by the key: a reference may have come from a worker, and a key is a file's name
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
                        if _FILE.fullmatch(entry.name):
                            found.append(entry.name.removesuffix(".json"))
                        elif entry.name.endswith(".part"):
                            os.unlink(entry.path)  # whoever was writing it has died over it
        return found

    def drop(self, checksum: str, *, before: float) -> bool:
        """Out of sight first: whoever puts it meanwhile either has touched it before, or does not find it and writes
        it anew."""
        path = self._folder / key_of(checksum)
        aside = path.with_suffix(f".{os.getpid()}.gone")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        crash_point("retention.collecting")
        with suppress(FileNotFoundError):  # somebody took us for dead, and has put it back: another time, then
            if aside.stat().st_mtime < before:
                aside.unlink()
                return True
            aside.replace(path)
        return False

    def close(self) -> None:
        """Nothing is open."""


def _put_back(aside: Iterable[Path]) -> bool:
    """What whoever was about to drop it has left aside, since it died over it: somebody may have put it meanwhile."""
    found = False
    for path in aside:
        with suppress(FileNotFoundError):
            with suppress(FileExistsError):  # put anew: that one is younger
                os.link(path, path.with_name(f"{path.name.partition('.')[0]}.json"))
            path.unlink()
            found = True
    return found


class MemoryResults:
    """The same, for runs that need not outlive their process."""

    store, is_outside = "memory", False

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}

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
        if self._put_at.get(checksum, before) >= before:
            return False
        del self._put_at[checksum]
        return self._bodies.pop(checksum, None) is not None

    def close(self) -> None:
        """Nothing is open."""


def is_checksum(text: str) -> bool:
    return _CHECKSUM.fullmatch(text) is not None


def key_of(checksum: str) -> str:
    """Where a value is kept, below the folder of a store."""
    if not is_checksum(checksum):
        raise ToolError("result.missing", f"{checksum!r} is not the checksum of a stored result")
    return f"{checksum[:2]}/{checksum}.json"


def referring(store: str, checksum: str, value: Any, body: bytes) -> Reference:
    """Where a value is, in a store that goes by `key_of`."""
    return Reference(
        store=store, key=key_of(checksum), checksum=checksum, size=len(body), schema_hint=schema_hint(value)
    )


def verified(checksum: str, body: bytes) -> bytes:
    """The body, if it is what was stored."""
    if hashlib.sha256(body).hexdigest() != checksum:
        raise ToolError("result.corrupt", f"the stored result {checksum} is not what was written")
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
