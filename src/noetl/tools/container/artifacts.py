"""Files copied out of a container: a tar stream from the engine, into files of data folders.

The engine and the image are not trusted: a name never leads out of the folder, links and devices are left out, and the
sum of all bytes is bounded. Files are written by a thread, part by part, so memory stays flat.
"""

from __future__ import annotations

import asyncio
import os
import queue
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.container.container_task import Artifact

MAX_BYTES = 4 << 30
MAX_FILES = 10_000
_CHUNK = 1 << 20
_WAITING = 16  # parts between the socket and the disk


class _Parts:
    """What a thread reads as a file while the event loop fills it."""

    def __init__(self) -> None:
        self.queue: queue.Queue[bytes] = queue.Queue()
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            part = self.queue.get()
            if not part:
                break
            self._rest += part
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


async def copied_out(artifact: Artifact, parts: AsyncIterator[bytes]) -> dict[str, Any]:
    """Write what the tar holds; how many files and bytes. ToolError `container.error` where it is no good tar."""
    source = _Parts()
    writing = asyncio.ensure_future(asyncio.to_thread(_written, artifact, source))
    try:
        async for part in parts:
            source.queue.put(part)
            while source.queue.qsize() > _WAITING and not writing.done():
                # The thread writes slower than the engine sends: wait, or the whole file would be in memory.
                await asyncio.sleep(0.005)
            if writing.done():
                break
    finally:
        source.queue.put(b"")
        while not writing.done():  # a thread cannot be cancelled, and must not write on after the task
            await asyncio.wait([writing])
    return writing.result()


def _written(artifact: Artifact, source: _Parts) -> dict[str, Any]:
    files = size = 0
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                # No links, devices or folders: what a tar says of those could lead out of the folder.
                if not member.isfile():
                    continue
                files, size = files + 1, size + member.size
                if files > MAX_FILES or size > MAX_BYTES:
                    raise ToolError("container.error", f"{artifact.path} is more than may be copied out")
                _write(archive, member, _place(artifact, member.name))
    except (tarfile.TarError, OSError, ValueError, EOFError) as problem:
        raise ToolError("container.error", f"{artifact.path} could not be copied out: {problem}") from None
    return {"path": artifact.path, "file": artifact.file, "files": files, "bytes": size}


def _place(artifact: Artifact, name: str) -> Path:
    """The engine puts everything below the last part of the path: that part becomes `file`."""
    parts = PurePosixPath(name).parts
    below = [part for part in parts[1:] if part not in ("..", "/")]
    return Path(artifact.file, *below)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None, "it is a file"
    # No link: somebody else may have left one in the data folder.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place, flags, 0o644), "wb") as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
