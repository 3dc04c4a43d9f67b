"""Unpacking: members into a new folder, which becomes the target when all of them are there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from noetl.base.errors import ToolError
from noetl.tools.archive.reading import UNSAFE, ArchiveMember, opened
from noetl.tools.archive.request import ArchiveAnswer, ArchiveRequest, PackedMember

_CHUNK = 1 << 20


def unpacked(request: ArchiveRequest) -> ArchiveAnswer:
    """The files that are in the folder now."""
    root = Path(request.folder)
    root.mkdir()
    members = []
    with opened(request) as found:
        for member in found:
            place = root / member.name
            if member.content is None:
                if not request.members:
                    _folder(place, member, request)
                continue
            _folder(place.parent, member, request)
            members.append(_written(member, place, request))
    return ArchiveAnswer(members=members)


def listed(request: ArchiveRequest) -> ArchiveAnswer:
    """The files of an archive. A gz does not say how large its file is: it is read for that."""
    members = []
    with opened(request) as found:
        for member in found:
            size = member.size
            if size < 0 and member.content is not None:
                size = _length(member.content)
            if member.content is not None or request.format == "zip":
                members.append(PackedMember(name=member.name, size=size))
    return ArchiveAnswer(members=members)


def _length(content: IO[bytes]) -> int:
    size = 0
    while chunk := content.read(_CHUNK):
        size += len(chunk)
    return size


def _folder(place: Path, member: ArchiveMember, request: ArchiveRequest) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ToolError(UNSAFE, f'"{member.name}" of {request.name} is a file and a folder at once') from None


def _written(member: ArchiveMember, place: Path, request: ArchiveRequest) -> PackedMember:
    assert member.content is not None
    digest, size = hashlib.sha256(), 0
    try:
        # Never over something that is there: a second member of the same name could replace what was checked.
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except (FileExistsError, IsADirectoryError):
        raise ToolError(UNSAFE, f'{request.name} has "{member.name}" twice') from None
    with os.fdopen(handle, "wb") as out:
        while chunk := member.content.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            out.write(chunk)
    return PackedMember(name=member.name, size=size, checksum=f"sha256:{digest.hexdigest()}")
