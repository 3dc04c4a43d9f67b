"""The files that a task reads and writes: in a data folder, or as a local copy of an object by its URL.

A new file is written beside its place and moved there when it is whole, so that a task which is cancelled or killed
leaves no half of one. Objects are copied by the `storage` tool, under its credentials and the address policy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.files import allowed_path

_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"})
_LONGEST = 600  # of a message
_ABANDONED_S = 86_400  # since anybody wrote to it


@contextmanager
def brief_errors(context: ToolContext) -> Iterator[None]:
    """Errors with messages of a length that people read. They are masked first: half a secret is not recognised."""
    try:
        yield
    except ToolError as problem:
        message = "".join(sign if sign.isprintable() else " " for sign in context.masked(problem.message))
        short = message if len(message) <= _LONGEST else message[:_LONGEST] + " …"
        raise ToolError(problem.kind, short, retryable=problem.retryable, **problem.details) from None


class FileEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A file or an object, as the task names it, and the credential of the object's store."""

    written: str
    auth: Any = None

    @property
    def is_object(self) -> bool:
        return urlsplit(self.written).scheme in _OBJECTS

    @property
    def name(self) -> str:
        """The last part of its name, without what a URL may hold besides."""
        path = urlsplit(self.written).path if self.is_object else self.written
        return path.rstrip("/").rpartition("/")[2]


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is being written."""

    end: FileEnd
    # Where it is written. In the folder of `place`, since a rename is atomic only within one file system.
    part: Path
    # Where it goes when it is whole; None for an object, which it is copied to.
    place: Path | None = None


class Workplace:
    """A folder of its own for one task, and the new files of the task. All that is not finished goes with it."""

    def __init__(self, kind: str, context: ToolContext) -> None:
        self._kind, self._context = kind, context
        self._folder = tempfile.mkdtemp(prefix="noetl-")
        self._parts: list[Path] = []
        self._fetched = 0

    @property
    def folder(self) -> Path:
        return Path(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in self._parts:
            self.clear(part)
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def clear(part: Path) -> None:
        """Remove what an attempt left there, if it did."""
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink(missing_ok=True)

    async def fetched(self, end: FileEnd) -> Path:
        """The file to read; an object is copied here first. ToolError `KIND.missing` where there is none."""
        if end.is_object:
            self._fetched += 1
            copy = self.folder / f"object-{self._fetched}"
            await self._copied(end.written, f"file:{copy}", end.auth)
            return copy
        path = self.allowed(end.written)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is no file" if path.exists() else "does not exist"
            raise ToolError(f"{self._kind}.missing", f'"{end.written}" {what}')
        return path

    def allowed(self, written: str) -> Path:
        """A path in a data folder. ToolError `KIND.input` says why it cannot be opened."""
        return Path(allowed_path(written, self._context.data_folders, kind=f"{self._kind}.input"))

    def begun(self, end: FileEnd) -> NewFile:
        """A file to write to, under a name that a repeated attempt takes again."""
        if end.is_object:
            return NewFile(end=end, part=self.folder / "new-object")
        place = self.allowed(end.written)
        if place.is_dir():
            raise ToolError(f"{self._kind}.input", f'"{end.written}" is a folder: name a file in it')
        place.parent.mkdir(parents=True, exist_ok=True)
        self._clear_abandoned(place)
        return NewFile(end=end, part=self.part_of(place), place=place)

    def _clear_abandoned(self, place: Path) -> None:
        """Remove what attempts left beside `place` whose worker was killed: nobody else could. An attempt that goes on
        writes to its file, so one that has not changed for a day is nobody's."""
        for part in place.parent.glob(f".{escape(place.name[:200])}.*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    self.clear(part)

    def part_of(self, place: Path) -> Path:
        """Where something is written that is to stand at `place`; it goes with the task if it does not get there."""
        own = hashlib.sha256(self._context.idempotency_key.encode()).hexdigest()[:12]
        part = place.with_name(f".{place.name[:200]}.{own}.part")
        self._parts.append(part)
        return part

    async def finished(self, file: NewFile, *, if_absent: bool = False) -> None:
        """The file is whole: it goes to its place. ToolError `KIND.conflict` if it may replace nothing and must."""
        if file.place is None:
            more: dict[str, Any] = {"if_absent": True} if if_absent else {}
            await self._copied(f"file:{file.part}", file.end.written, None, file.end.auth, **more)
            return
        if not if_absent:
            os.replace(file.part, file.place)
            return
        try:
            os.link(file.part, file.place)  # unlike a rename it fails if there is something
        except FileExistsError:
            raise ToolError(f"{self._kind}.conflict", f'"{file.end.written}" exists already') from None

    async def _copied(self, source: str, target: str, auth: Any, target_auth: Any = None, **more: Any) -> None:
        context = msgspec.structs.replace(self._context, data_folders=(self._folder,), spec=self._storage_spec())
        if self._context.tool is None:
            raise ToolError(f"{self._kind}.input", "objects cannot be reached here: name a file in a data folder")
        written: Mapping[str, Any] = (
            {"url": target, "auth": target_auth} if target_auth is not None else {"url": target}
        )
        inputs = {"op": "copy", "url": source, "target": written, **more}
        await self._context.tool("storage").run({**inputs, "auth": auth} if auth is not None else inputs, context)

    def _storage_spec(self) -> dict[str, Any]:
        timeout = self._context.spec.get("timeout")
        return {} if timeout is None else {"timeout": timeout}


def end_of(written: Any, auth: Any, *, kind: str, name: str) -> FileEnd:
    """The end that a text or a mapping with `url` names. ToolError `KIND.input` says what to write."""
    own = auth
    if isinstance(written, Mapping):
        own = written.get("auth", auth)
        written = written.get("url")
    if not isinstance(written, str) or not written.strip():
        raise ToolError(f"{kind}.input", f'"{name}" is missing: write a file in a data folder, or a URL such as s3://…')
    end = FileEnd(written=written.strip(), auth=own)
    scheme = end.written.partition("://")[0] if "://" in end.written else ""
    if scheme and scheme != "file" and not end.is_object:
        raise ToolError(
            f"{kind}.input",
            f'"{name}" has a URL of "{scheme}": write s3://, gs://, az:// or a file in a data folder',
        )
    return end


def checksum_of(path: Path) -> tuple[int, str]:
    """Size and checksum of a file, whose bytes are on the disk after that."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
        # Before it gets its name: after a power cut there is the whole file, or none.
        os.fsync(file.fileno())
    return size, f"sha256:{digest.hexdigest()}"
