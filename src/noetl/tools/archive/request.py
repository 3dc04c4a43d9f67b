"""Requests: what the tool asks its child process to do with an archive."""

from __future__ import annotations

import msgspec

MAX_FILES = 10_000
MAX_BYTES = 10 << 30
# Well above what text and logs reach; a bomb has thousands.
MAX_RATIO = 200
FREE_BYTES = 64 << 20  # that much may come out of however little


class PackedFile(msgspec.Struct, frozen=True):
    """A file, and its name in the archive."""

    path: str
    name: str


class ArchiveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `archive` is read or written, `name` is what people know it by, and `inner` what the one file of
    a gz is called; `folder` is where members go, `members` are patterns."""

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
