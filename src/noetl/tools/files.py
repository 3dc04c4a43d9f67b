"""Files in the data folders of the operator: the only files that inputs of a task may name. Also program texts in such
files, and local copies of objects.

A new file is written under a temporary name in the same folder and renamed when it is complete, so that a cancelled or
killed task leaves no partial file. The `storage` tool copies objects, under its credentials and the address policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.input_shapes import whole_number

NO_FOLDER = (
    "no data folder is open here; the operator of this worker opens one with data_folders in noetl.toml, or with "
    "NOETL_DATA_FOLDERS"
)


def outside(folders: Sequence[str]) -> str:
    """The error for a path outside all folders. They are the operator's setting, and no secret."""
    opened = ", ".join(os.path.abspath(folder) for folder in folders)
    return (
        f"outside the folders that are open here: {opened}. The operator of this worker opens more with data_folders "
        "in noetl.toml, or with NOETL_DATA_FOLDERS"
    )


# The most bytes of a file that a task takes from another machine, without `spec.max_bytes`: a server that sends without
# end must not fill the disk.
MAX_FILE_BYTES = 10 << 30


def max_file_bytes(context: ToolContext, *, error: str) -> int:
    """The size limit of a file that a task writes here. Raises ToolError `error` if the task's own is no number."""
    return whole_number(context.spec.get("max_bytes"), "spec.max_bytes", MAX_FILE_BYTES, error=error, most=1 << 50)


def file_too_large(what: object, limit_bytes: int) -> ToolError:
    return ToolError("result.too_large", f"{what} has more than {limit_bytes} bytes: raise spec.max_bytes if it may")


# A larger file is hardly a program: it is data in the wrong place.
MAX_BYTES = 1 << 20


def allowed_path(written: str, folders: Sequence[str], *, kind: str) -> str:
    """The path with all links resolved. A relative path is below the first folder. Raises ToolError `kind` with the
    reason if it may not be opened."""
    path = written.removeprefix("file:").removeprefix("//")
    if not folders:
        raise ToolError(kind, f'"{written}" cannot be opened: {NO_FOLDER}')
    # A native library would cut the path at the NUL, and open another file than the one that was checked.
    if "\x00" in path:
        raise ToolError(kind, "a path cannot hold a NUL character")
    roots = [os.path.realpath(folder) for folder in folders]
    place = os.path.realpath(os.path.join(roots[0], path))
    if not any(os.path.commonpath([root, place]) == root for root in roots):
        raise ToolError(kind, f'"{written}" is {outside(folders)}')
    return place


def missing_folder_warnings(folders: Sequence[str]) -> list[str]:
    """Warnings about missing data folders. They are not created: a misspelt path, or a volume that is not mounted,
    would become an empty folder that swallows the files of tasks."""
    return [
        f"the data folder {os.path.abspath(folder)} does not exist, so tasks cannot open files in it: create it, or "
        f"correct data_folders"
        for folder in folders
        if not os.path.isdir(folder)
    ]


# Script files: program texts in files, for python, script and SQL tasks.
#
# They are read only from data folders, up to a size, and in a thread: a slow disk must not block the event loop.


async def read_script(uri: str, folders: Sequence[str], *, kind: str, **details: Any) -> str:
    """The text of the file. Raises ToolError of `kind`, with `details`, if it cannot be read."""
    try:
        return await asyncio.to_thread(_script_text, uri.removeprefix("file://"), folders)
    except _UnreadableScript as problem:
        raise ToolError(kind, str(problem), **details) from None


class _UnreadableScript(Exception):  # noqa: N818  it never leaves this module
    pass


def _script_text(written: str, folders: Sequence[str]) -> str:
    path = _script_path(written, folders)
    try:
        # Non-blocking: opening a pipe would wait for a writer. No links: they are resolved already, and one that
        # appeared since then was put there to escape the folder.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _UnreadableScript(f"the script {path} is not a regular file")
            body = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise _UnreadableScript(f"the script {path} cannot be read: {problem.strerror}") from None
    if len(body) > MAX_BYTES:
        raise _UnreadableScript(f"the script {path} is longer than {MAX_BYTES >> 20} MiB")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise _UnreadableScript(f"the script {path} is not UTF-8 text") from None


def _script_path(written: str, folders: Sequence[str]) -> Path:
    """The path with all links resolved, if it is in one of the folders."""
    if not folders:
        raise _UnreadableScript(f'the script "{written}" cannot be read: {NO_FOLDER}')
    roots = [Path(folder).resolve() for folder in folders]
    try:
        # Links are resolved before the comparison, or a link inside a data folder could lead anywhere.
        path = (roots[0] / written).resolve()
    except (OSError, RuntimeError, ValueError):
        raise _UnreadableScript(f'the script "{written[:200]}" is not a path of a file') from None
    if not any(path.is_relative_to(root) for root in roots):
        raise _UnreadableScript(f'the script "{written}" is {outside(folders)}')
    return path


_OBJECT_SCHEMES = frozenset({"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"})
_MAX_MESSAGE_CHARS = 600
_ABANDONED_S = 86_400  # since the last write


@contextmanager
def brief_errors(context: ToolContext) -> Iterator[None]:
    """Shorten the messages of errors. They are masked first, since half a secret is not recognised."""
    try:
        yield
    except ToolError as problem:
        message = "".join(char if char.isprintable() else " " for char in context.mask(problem.message))
        short = message if len(message) <= _MAX_MESSAGE_CHARS else message[:_MAX_MESSAGE_CHARS] + " …"
        raise ToolError(problem.kind, short, retryable=problem.retryable, **problem.details) from None


class FileEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A file or an object in the spelling of the task, and the credential of the object's store."""

    written: str
    auth: Any = None

    @property
    def is_object(self) -> bool:
        return urlsplit(self.written).scheme in _OBJECT_SCHEMES

    @property
    def name(self) -> str:
        """The last part of its path, without the query of a URL."""
        path = urlsplit(self.written).path if self.is_object else self.written
        return path.rstrip("/").rpartition("/")[2]


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is being written."""

    end: FileEnd
    # The temporary path. In the folder of `place`, since a rename is atomic only within one file system.
    part: Path
    # The final path; None for an object, to which the file is copied.
    place: Path | None = None


class TaskFolder:
    """A temporary folder for one task, and the new files of the task. Unfinished files are deleted at the end."""

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
        """Remove a temporary file or folder, if it exists."""
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink(missing_ok=True)

    async def fetched(self, end: FileEnd) -> Path:
        """The file to read; an object is copied here first. Raises ToolError `KIND.missing` if it does not exist."""
        if end.is_object:
            self._fetched += 1
            copy = self.folder / f"object-{self._fetched}"
            await self._copy(end.written, f"file:{copy}", end.auth)
            return copy
        path = self.allowed(end.written)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise ToolError(f"{self._kind}.missing", f'"{end.written}" {what}')
        return path

    def allowed(self, written: str) -> Path:
        """A path in a data folder. Raises ToolError `KIND.input` if it may not be opened."""
        return Path(allowed_path(written, self._context.permissions.data_folders, kind=f"{self._kind}.input"))

    def begin(self, end: FileEnd) -> NewFile:
        """A new file. A repeated attempt uses the same temporary name, and so replaces what the first one left."""
        if end.is_object:
            return NewFile(end=end, part=self.folder / "new-object")
        place = self.allowed(end.written)
        if place.is_dir():
            raise ToolError(f"{self._kind}.input", f'"{end.written}" is a folder: name a file in it')
        place.parent.mkdir(parents=True, exist_ok=True)
        self._clear_abandoned(place)
        return NewFile(end=end, part=self.part_of(place), place=place)

    def _clear_abandoned(self, place: Path) -> None:
        """Remove temporary files beside `place` from attempts whose worker was killed. A running attempt writes to its
        file, so a file that has not changed for a day is abandoned."""
        for part in place.parent.glob(f".{escape(place.name[:200])}.*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    self.clear(part)

    def part_of(self, place: Path) -> Path:
        """The temporary path for `place`, which is deleted with the task unless it was renamed."""
        own = hashlib.sha256(self._context.task_run.idempotency_key.encode()).hexdigest()[:12]
        part = place.with_name(f".{place.name[:200]}.{own}.part")
        self._parts.append(part)
        return part

    async def finish(self, file: NewFile, *, if_absent: bool = False) -> None:
        """Move the complete file to its place. Raises ToolError `KIND.conflict` if `if_absent` and a file is there."""
        if file.place is None:
            options: dict[str, Any] = {"if_absent": True} if if_absent else {}
            await self._copy(f"file:{file.part}", file.end.written, None, file.end.auth, **options)
            return
        if not if_absent:
            os.replace(file.part, file.place)
            return
        try:
            os.link(file.part, file.place)  # unlike a rename, it fails if the name exists
        except FileExistsError:
            raise ToolError(f"{self._kind}.conflict", f'"{file.end.written}" exists already') from None

    async def _copy(self, source: str, target: str, auth: Any, target_auth: Any = None, **options: Any) -> None:
        # The storage tool may open the temporary folder only, so that a URL cannot name another file of this machine.
        permissions = msgspec.structs.replace(self._context.permissions, data_folders=(self._folder,))
        context = msgspec.structs.replace(self._context, permissions=permissions, spec=self._storage_spec())
        if self._context.tool is None:
            raise ToolError(f"{self._kind}.input", "objects cannot be reached here: name a file in a data folder")
        written: Mapping[str, Any] = (
            {"url": target, "auth": target_auth} if target_auth is not None else {"url": target}
        )
        inputs = {"op": "copy", "url": source, "target": written, **options}
        await self._context.tool("storage").run({**inputs, "auth": auth} if auth is not None else inputs, context)

    def _storage_spec(self) -> dict[str, Any]:
        timeout, own = self._context.spec.get("timeout"), self._context.spec.get("max_bytes")
        # A limit of the task that is lower is for what it makes of the file.
        limit = {"max_bytes": own} if isinstance(own, int) and own > MAX_FILE_BYTES else {}
        return limit if timeout is None else {"timeout": timeout, **limit}


def end_of(written: Any, auth: Any, *, kind: str, name: str) -> FileEnd:
    """The file or object that a text or a mapping with `url` names. Raises ToolError `KIND.input` for anything else."""
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


def flushed_checksum(path: Path) -> tuple[int, str]:
    """Size and checksum of a file. Its bytes are on the disk afterwards."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
        # Before the rename: after a power failure there is the complete file or none.
        os.fsync(file.fileno())
    return size, f"sha256:{digest.hexdigest()}"
