"""Results in files, named by the SHA-256 of their content and synced before anybody names them (RES-01, RES-02)."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import BackendError, ToolError
from noetl.records.references import Reference

STORE = "files"
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


class FileResults:
    """One file per value below `folder`; an equal value is stored once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        checksum = hashlib.sha256(body).hexdigest()
        key = key_of(checksum)
        try:
            self._write(self._folder / key, body)
        except OSError as problem:
            raise BackendError(f"the result store {self._folder} failed: {problem}") from problem
        return Reference(store=STORE, key=key, checksum=checksum, size=len(body), schema_hint=schema_hint(value))

    def _write(self, path: Path, body: bytes) -> None:
        if path.exists() and path.stat().st_size == len(body):
            return  # one that was cut short behind our back is written anew
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            with part.open("wb") as file:
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
        try:
            # by its content, not by the key: a reference may have come from a worker, and a key is a file's name
            body = (self._folder / key_of(reference.checksum)).read_bytes()
        except OSError:
            raise ToolError("result.missing", f"the stored result {reference.key} cannot be read") from None
        return opened(reference, body)


class MemoryResults:
    """The same, for runs that need not outlive their process."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        checksum = hashlib.sha256(body).hexdigest()
        self._bodies[checksum] = body
        return Reference(
            store="memory", key=checksum, checksum=checksum, size=len(body), schema_hint=schema_hint(value)
        )

    def load(self, reference: Reference) -> Any:
        try:
            return opened(reference, self._bodies[reference.checksum])
        except KeyError:
            raise ToolError("result.missing", f"the stored result {reference.key} is gone") from None


def key_of(checksum: str) -> str:
    """Where a value is kept, below the folder of a store."""
    if not _CHECKSUM.fullmatch(checksum):
        raise ToolError("result.missing", f"{checksum!r} is not the checksum of a stored result")
    return f"{checksum[:2]}/{checksum}.json"


def opened(reference: Reference, body: bytes) -> Any:
    """The value in `body`, if it is the one that was stored."""
    if hashlib.sha256(body).hexdigest() != reference.checksum:
        raise ToolError("result.corrupt", f"the stored result {reference.key} is not what was written")
    return msgspec.json.decode(body)


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
