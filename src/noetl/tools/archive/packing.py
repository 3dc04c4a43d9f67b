"""Packing: files into a new archive, in the order of their names."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import IO, Any

from noetl.base.errors import ToolError
from noetl.tools.archive.request import ArchiveAnswer, ArchiveRequest, PackedFile, PackedMember
from noetl.tools.file_ends import checksum_of

_CHUNK = 1 << 20
# A zip file can hold no earlier time.
_OLDEST_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def packed(request: ArchiveRequest) -> ArchiveAnswer:
    """The archive's size and checksum, and what is in it."""
    match request.format:
        case "zip":
            members = _zip(request)
        case "gz":
            members = _gz(request)
        case _:
            members = _tar(request)
    size, checksum = checksum_of(Path(request.archive))
    return ArchiveAnswer(members=members, size=size, checksum=checksum)


def _zip(request: ArchiveRequest) -> list[PackedMember]:
    members = []
    with zipfile.ZipFile(request.archive, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in request.files:
            info = zipfile.ZipInfo.from_file(file.path, file.name, strict_timestamps=False)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            info.date_time = max(info.date_time, _OLDEST_OF_ZIP)
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
                # who owns a file here is nobody's business elsewhere
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mode = 0o644
                info.type = tarfile.REGTYPE  # also a file with two names is packed as itself
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
