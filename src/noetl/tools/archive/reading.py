"""Members of an archive, one after another, each with the stream of its bytes; unsafe members are refused. Also the
requests of the tool to its child process."""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from noetl.base.errors import ToolError

MAX_FILES = 10_000
MAX_BYTES = 10 << 30
# Well above the ratio of text and logs; a decompression bomb has thousands.
MAX_RATIO = 200
FREE_BYTES = 64 << 20  # up to this size, no ratio is too high


class PackedFile(msgspec.Struct, frozen=True):
    """A file, and its name in the archive."""

    path: str
    name: str


class ArchiveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `archive` is the file to read or write, `name` its name in messages, `inner` the name of the
    single file in a gz; members are written to `folder`, `members` are patterns."""

    op: str
    archive: str
    name: str
    format: str
    inner: str = "content"
    folder: str = ""
    files: list[PackedFile] = []
    members: list[str] = []
    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES
    max_ratio: int = MAX_RATIO


class PackedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an archive."""

    name: str
    size: int
    checksum: str | None = None


class ArchiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    members: list[PackedMember]
    size: int | None = None
    checksum: str | None = None


DATA, UNSAFE, LIMIT = "archive.data", "archive.unsafe", "archive.limit"
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
_DIRECTORY_BYTES = 64 << 20  # of a zip, read at once


class ArchiveMember(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a folder without `content`."""

    name: str
    size: int
    content: IO[bytes] | None = None


class Counted:
    """A stream of expanded bytes. It raises an error when there are more of them than the limits allow."""

    def __init__(self, stream: IO[bytes], request: ArchiveRequest, packed: int, seen: int = 0) -> None:
        self._stream, self._request, self._packed = stream, request, max(packed, 1)
        self.size = seen

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size if size >= 0 else 1 << 20)
        self.take(len(chunk))
        return chunk

    def take(self, size: int) -> None:
        self.size += size
        name, most, ratio = self._request.name, self._request.max_bytes, self._request.max_ratio
        if self.size > most:
            raise ToolError(LIMIT, f"{name} expands to more than {most} bytes: raise spec.max_bytes if it may")
        if self.size > FREE_BYTES and self.size > ratio * self._packed:
            raise ToolError(
                LIMIT,
                f"{name} expands to more than {ratio} times its {self._packed} bytes: raise spec.max_ratio if it may",
            )


@contextmanager
def opened(request: ArchiveRequest) -> Iterator[Iterator[ArchiveMember]]:
    """The members of an archive. ToolError `archive.data` for a file that is no archive, `archive.unsafe` for an unsafe
    member, `archive.limit` for an archive that is too large."""
    path = Path(request.archive)
    try:
        yield _zip_members(path, request) if request.format == "zip" else _stream_members(path, request)
    except _BROKEN as problem:
        reason = f"{type(problem).__name__}: {problem}"
        raise ToolError(DATA, f"{request.name} is not a whole {request.format} archive ({reason})") from None
    except (OSError, ValueError, UnicodeError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise ToolError("archive.error", f"{request.name}: {problem.strerror}") from None
        raise ToolError(DATA, f"{request.name} is not a whole {request.format} archive ({problem})") from None


def matches(name: str, patterns: list[str]) -> bool:
    """Whether a member is selected: a pattern matches its whole name or its last part, or names a folder above it."""
    if not patterns:
        return True
    last = posixpath.basename(name)
    return any(
        fnmatchcase(name, pattern) or fnmatchcase(last, pattern) or name.startswith(pattern.rstrip("/") + "/")
        for pattern in patterns
    )


def _zip_members(path: Path, request: ArchiveRequest) -> Iterator[ArchiveMember]:
    _check_directory(path, request)
    with zipfile.ZipFile(path) as archive:
        size, seen = path.stat().st_size, 0
        for number, info in enumerate(archive.infolist(), 1):
            _check_count(number, request)
            name = _safe(info.filename, request)
            # Archives made on Unix have the mode of the file here, and others have 0.
            mode = info.external_attr >> 16
            if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _not_plain(name, "a link" if stat.S_ISLNK(mode) else "no plain file", request)
            if info.is_dir():
                yield ArchiveMember(name=name, size=0)
                continue
            if not matches(name, request.members):
                continue
            if info.flag_bits & 1:
                raise ToolError(
                    "archive.denied",
                    f'"{name}" of {request.name} is encrypted: passwords of zip files are not supported; unpack it '
                    "where the password is known",
                )
            if request.op == "list":
                yield ArchiveMember(name=name, size=info.file_size)
                continue
            with archive.open(info) as content:
                stream = Counted(content, request, size, seen)
                yield ArchiveMember(name=name, size=info.file_size, content=cast(IO[bytes], stream))
                seen = stream.size


def _check_directory(path: Path, request: ArchiveRequest) -> None:
    """The directory of a zip is read as a whole, so its size is checked first: the end of the file has it."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        # The last record of a zip has 22 bytes, and a comment of up to 64 KiB behind it.
        file.seek(max(0, size - (1 << 16) - 22))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at >= 0 and len(end) >= at + 20 and int.from_bytes(end[at + 12 : at + 16], "little") > _DIRECTORY_BYTES:
        raise ToolError(LIMIT, f"{request.name} has a directory of more than {_DIRECTORY_BYTES >> 20} MiB")


def _stream_members(path: Path, request: ArchiveRequest) -> Iterator[ArchiveMember]:
    packed = path.stat().st_size
    with _expanding(path, request.format) as raw:
        stream = cast(IO[bytes], Counted(raw, request, packed))
        if request.format == "gz":
            yield ArchiveMember(name=request.inner, size=-1, content=stream)
            return
        # As a stream, without seeking: every byte that is expanded passes the counter.
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, info in enumerate(archive, 1):
                _check_count(number, request)
                yield from _tar_member(archive, info, request)
                archive.__dict__["members"] = []  # or it would keep every header that it has seen


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo, request: ArchiveRequest) -> Iterator[ArchiveMember]:
    name = _safe(info.name, request)
    if info.isdir():
        yield ArchiveMember(name=name, size=0)
        return
    if not info.isreg() or info.issparse():
        kind = "a link" if info.issym() or info.islnk() else "sparse" if info.issparse() else "a device or a pipe"
        raise _not_plain(name, kind, request)
    if matches(name, request.members):
        yield ArchiveMember(name=name, size=info.size, content=archive.extractfile(info))


def _expanding(path: Path, form: str) -> Any:
    match form:
        case "tar":
            return path.open("rb")
        case "tar.gz" | "gz":
            return gzip.open(path, "rb")
        case "tar.bz2":
            return bz2.open(path, "rb")
        case _:
            return lzma.open(path, "rb")


def _safe(name: str, request: ArchiveRequest) -> str:
    """The name of a member within its folder. ToolError `archive.unsafe` where it leads out of it."""
    parts = name.rstrip("/").split("/")
    is_unsafe = (
        name.startswith(("/", "\\"))
        or ".." in parts
        or "\\" in name
        or any(ord(sign) < 32 for sign in name)
        or (len(name) > 1 and name[1] == ":")
        or any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts)
        or len(name) > 4_000
    )
    clean = posixpath.normpath(name)
    if is_unsafe or clean.startswith(("..", "/")):
        raise ToolError(UNSAFE, f'"{name}" of {request.name} leads out of its folder, or is not a valid file name')
    return clean


def _not_plain(name: str, what: str, request: ArchiveRequest) -> ToolError:
    return ToolError(UNSAFE, f'"{name}" of {request.name} is {what}: only files and folders are unpacked')


def _check_count(number: int, request: ArchiveRequest) -> None:
    if number > request.max_files:
        raise ToolError(
            LIMIT, f"{request.name} has more than {request.max_files} members: raise spec.max_files if it may"
        )
