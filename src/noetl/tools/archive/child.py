"""The child process of the `archive` tool: it packs and unpacks. Its memory is limited, since the headers of an archive
can demand a lot.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import resource
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.archive.reading import (
    UNSAFE,
    ArchiveAnswer,
    ArchiveMember,
    ArchiveRequest,
    PackedFile,
    PackedMember,
    opened,
)
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.files import flushed_checksum

# Packing: files into a new archive, in the order of their names; and unpacking into a new folder.

# Unpacking: members into a new folder, which becomes the target when all of them are there.
_CHUNK = 1 << 20
# the earliest time that a zip file can store
_OLDEST_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def packed(request: ArchiveRequest) -> ArchiveAnswer:
    """Pack an archive; returns its size, its checksum and its members."""
    match request.format:
        case "zip":
            members = _zip(request)
        case "gz":
            members = _gz(request)
        case _:
            members = _tar(request)
    size, checksum = flushed_checksum(Path(request.archive))
    return ArchiveAnswer(members=members, size=size, checksum=checksum)


def _zip(request: ArchiveRequest) -> list[PackedMember]:
    members = []
    with zipfile.ZipFile(request.archive, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in request.files:
            info = zipfile.ZipInfo.from_file(file.path, file.name, strict_timestamps=False)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            info.date_time = max(info.date_time, _OLDEST_OF_ZIP)
            # The file may grow while it is read. Past 2 GiB its entry could not be finished without this.
            with open(file.path, "rb") as source, archive.open(info, "w", force_zip64=True) as out:
                shutil.copyfileobj(source, out, _CHUNK)
            members.append(PackedMember(name=file.name, size=info.file_size))
    return members


def _tar(request: ArchiveRequest) -> list[PackedMember]:
    members = []
    with _compressing(request) as stream, tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for file in request.files:
            with open(file.path, "rb") as source:
                info = archive.gettarinfo(arcname=file.name, fileobj=source)
                # Users and groups of this machine mean nothing on the machine that unpacks the archive.
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mode = 0o644
                info.type = tarfile.REGTYPE  # a file with two names is packed twice, not as a link
                archive.addfile(info, source)
            members.append(PackedMember(name=file.name, size=info.size))
    return members


def _gz(request: ArchiveRequest) -> list[PackedMember]:
    if len(request.files) != 1:
        raise ToolError("archive.input", f"gz holds one file, not {len(request.files)}: write tar.gz or zip")
    file: PackedFile = request.files[0]
    with open(file.path, "rb") as source, gzip.open(request.archive, "wb") as out:
        shutil.copyfileobj(source, out, _CHUNK)
        size = source.tell()
    return [PackedMember(name=file.name, size=size)]


def _compressing(request: ArchiveRequest) -> Any:
    opened: dict[str, Any] = {"tar": open, "tar.gz": gzip.open, "tar.bz2": bz2.open, "tar.xz": lzma.open}
    stream: IO[bytes] = opened[request.format](request.archive, "wb")
    return stream


def unpacked(request: ArchiveRequest) -> ArchiveAnswer:
    """Unpack an archive; returns the files that are in the folder now."""
    root = Path(request.folder)
    # It must be new: in a folder with content a link could lead elsewhere.
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
            members.append(_write_member(member, place, request))
    return ArchiveAnswer(members=members)


def listed(request: ArchiveRequest) -> ArchiveAnswer:
    """The files of an archive. A gz is read to its end, since its header does not have the size of its file."""
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


def _write_member(member: ArchiveMember, place: Path, request: ArchiveRequest) -> PackedMember:
    assert member.content is not None
    digest, size = hashlib.sha256(), 0
    try:
        # Never over an existing file: a second member of the same name could replace a member that was checked.
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except (FileExistsError, IsADirectoryError):
        raise ToolError(UNSAFE, f'{request.name} has "{member.name}" twice') from None
    with os.fdopen(handle, "wb") as out:
        while chunk := member.content.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            out.write(chunk)
    return PackedMember(name=member.name, size=size, checksum=f"sha256:{digest.hexdigest()}")


_MEMORY_BYTES = 1 << 30
_OPERATIONS = {"pack": packed, "unpack": unpacked, "list": listed}


def serve() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or most > _MEMORY_BYTES:
        # A header of a few bytes can ask for a dictionary of gigabytes. MemoryError is an answer; a killed worker is
        # not.
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, most))
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, ArchiveRequest)
    try:
        answer: ArchiveAnswer = _OPERATIONS[request.op](request)
    except ToolError as problem:
        return error_answer(problem)
    except MemoryError:
        return error_answer(
            ToolError("archive.limit", f"{request.name} asks for more memory than {_MEMORY_BYTES >> 20} MiB")
        )
    except OSError as problem:
        return error_answer(ToolError("archive.error", f"{request.name}: {problem.strerror or type(problem).__name__}"))
    # Broad: an archive is hostile input to half a dozen parsers, and each has its own errors.
    except Exception as problem:
        return error_answer(ToolError("archive.error", f"{request.name}: {type(problem).__name__}"))
    return msgspec.json.encode({"result": answer})
