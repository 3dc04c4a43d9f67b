"""Docker and Podman: one container by their API, from its image to its end. Also files copied out of it.

A container is found by its name, which is derived from the task run: an attempt that replaces a lost one finds the
container of the lost attempt, running or ended, and continues with it.
"""

from __future__ import annotations

import asyncio
import os
import queue
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.container.container_task import INPUT, Artifact, ContainerOutput, ContainerTask, EndedContainer
from noetl.tools.container.service_api import ServiceApi

VERSION = "v1.41"  # supported by Docker 20.10, Podman 3 and all later versions
STOP_S = 5  # from the first signal to the last
LOG_LINGERS_S = 5.0  # some engines do not close the log when the container ends
MAX_BYTES = 4 << 30
MAX_FILES = 10_000
_CHUNK = 1 << 20
_WAITING = 16  # parts between the socket and the disk


class DockerEngine:
    def __init__(self, api: ServiceApi) -> None:
        self._api = api
        self.has_begun = False  # there is a container of this task, or there may be one

    async def check(self) -> str:
        """The version of the engine."""
        found = await self._api.answer("GET", f"/{VERSION}/version")
        names = [str(one.get("Name")) for one in found.get("Components") or () if isinstance(one, dict)]
        name = self._api.readable_text(names[0] if names else "an engine")
        return f"reached {name} {self._api.readable_text(str(found.get('Version')))} at {self._api.service}"

    async def run(self, task: ContainerTask, output: ContainerOutput) -> EndedContainer:
        """Run the container to its end, or find it and follow it to its end."""
        # A path of this machine means nothing to an engine on another one: it would mount an empty folder of its own.
        if self._api.service.socket is None and any(mount.source for mount in task.mounts):
            raise ToolError(INPUT, "volumes: a data folder is of this machine, and the engine is on another")
        if any(mount.claim for mount in task.mounts):
            raise ToolError(INPUT, "volumes: a claim is of a Kubernetes cluster; give a source in a data folder")
        state = await self._state(task.name)
        self.has_begun = state is not None
        if state is None:
            await self._create(task)
            state = await self._state(task.name) or {}
        if state.get("Status") in ("created", "configured", "initialized"):
            # 304: an attempt that was lost has started it already.
            await self._api.call("POST", f"{_container_path(task.name)}/start", fine=(304,))
        await self._follow(task.name, output)
        return await self._end(task)

    async def remove(self, name: str) -> None:
        """Stop the container if it runs, and remove it."""
        await self._api.call("POST", f"{_container_path(name)}/stop", fine=(304, 404), t=STOP_S)
        # 404: it is gone. 409: the engine is removing it already.
        await self._api.call("DELETE", _container_path(name), fine=(404, 409), force="true", v="true")

    async def _state(self, name: str) -> dict[str, Any] | None:
        status, found = await self._api.call("GET", f"{_container_path(name)}/json", fine=(404,))
        if status == 404:
            return None
        state = found.get("State") if isinstance(found, dict) else None
        if not isinstance(state, dict):
            raise self._api.error("did not say how the container is")
        return state

    async def _create(self, task: ContainerTask) -> None:
        await self._fetch_image(task)
        self.has_begun = True
        # 409: an attempt that was just cancelled has created the container after all. By its name it is ours.
        await self._api.call("POST", f"/{VERSION}/containers/create", _settings(task), fine=(409,), name=task.name)

    async def _fetch_image(self, task: ContainerTask) -> None:
        place = f"/{VERSION}/images/{quote(task.image, safe='/:@')}/json"
        status, _ = await self._api.call("GET", place, fine=(404,))
        if task.pull == "always" or (status == 404 and task.pull == "missing"):
            await self._pull(task.image)
        elif status == 404:
            raise ToolError("container.image", f'there is no image "{task.image}", and pull is never', code="missing")

    async def _pull(self, image: str) -> None:
        """Pull the image. An engine answers 200 and reports a failure in the stream."""
        name, tag = _name_and_tag(image)
        line = b""
        try:
            async for part in self._api.stream("POST", f"/{VERSION}/images/create", fromImage=name, tag=tag):
                # Cut to a megabyte: an engine that never ends a line must not fill the memory.
                *whole, line = (line + part)[-(1 << 20) :].split(b"\n")
                for one in whole:
                    self._check_progress(image, one)
            self._check_progress(image, line)
        except ToolError as problem:
            if problem.kind == "container.error" and "status" in problem.details:
                raise self._not_pulled(image, problem.message) from None
            raise

    def _check_progress(self, image: str, line: bytes) -> None:
        with suppress(msgspec.DecodeError, RecursionError):
            message = msgspec.json.decode(line) if line.strip() else None
            if isinstance(message, dict) and message.get("error"):
                raise self._not_pulled(image, str(message["error"]))

    def _not_pulled(self, image: str, why: str) -> ToolError:
        message = f'the image "{image}" could not be pulled: {self._api.readable_text(why)}'
        return ToolError("container.image", message, retryable=True, code="pull")

    async def _follow(self, name: str, output: ContainerOutput) -> None:
        """Read the log of the container until it has ended."""
        log = asyncio.ensure_future(self._read_log(name, output))
        end = asyncio.ensure_future(self._wait(name))
        try:
            await asyncio.wait({log, end}, return_when=asyncio.FIRST_COMPLETED)
            if log.done():
                log.result()
            await end
            await asyncio.wait({log}, timeout=LOG_LINGERS_S)
            if log.done():
                log.result()
        finally:
            for one in (log, end):
                one.cancel()
            await asyncio.gather(log, end, return_exceptions=True)
        # Podman closes the log when the container ends, even if more of the log is still to come.
        await self._read_log(name, output, from_beginning=True)

    async def _read_log(self, name: str, output: ContainerOutput, *, from_beginning: bool = False) -> None:
        asked = {"stdout": "true", "stderr": "true", "follow": "false" if from_beginning else "true"}
        try:
            parts = self._api.stream("GET", f"{_container_path(name)}/logs", **asked)
            await output.take_frames(parts, from_beginning=from_beginning)
        except ValueError as problem:
            raise self._api.error(str(problem)) from None

    async def _wait(self, name: str) -> None:
        async for _ in self._api.stream("POST", f"{_container_path(name)}/wait"):
            pass  # the response arrives when the container has ended; the exit code is read below

    async def _end(self, task: ContainerTask) -> EndedContainer:
        state = await self._state(task.name)
        code = state.get("ExitCode") if state is not None else None
        if state is None or isinstance(code, bool) or not isinstance(code, int) or state.get("Running") is True:
            raise self._api.error("did not say how the container ended", code="state")
        copied = [await copied_out(one, self._archive(task.name, one.path)) for one in task.artifacts if code == 0]
        return EndedContainer(exit_code=code, is_out_of_memory=state.get("OOMKilled") is True, artifacts=tuple(copied))

    def _archive(self, name: str, path: str) -> AsyncIterator[bytes]:
        return self._api.stream("GET", f"{_container_path(name)}/archive", path=path)


def _container_path(name: str) -> str:
    return f"/{VERSION}/containers/{name}"


def _name_and_tag(image: str) -> tuple[str, str | None]:
    """The image and its tag; without a tag an engine would pull every tag."""
    if "@" in image:
        return image, None
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def _settings(task: ContainerTask) -> dict[str, Any]:
    host: dict[str, Any] = {
        "SecurityOpt": ["no-new-privileges"],
        "Binds": [f"{one.source}:{one.target}:{'ro' if one.read_only else 'rw'}" for one in task.mounts],
        "Memory": task.memory_bytes,
        "MemorySwap": task.memory_bytes,  # one limit for memory and swap together, so no swap is used
        "NanoCpus": None if task.cpus is None else int(task.cpus * 1e9),
        "PidsLimit": task.processes,
        "NetworkMode": task.network,
    }
    settings: dict[str, Any] = {
        "Image": task.image,
        "Entrypoint": list(task.command) or None,
        "Cmd": list(task.args) or None,
        "Env": [f"{name}={value}" for name, value in task.env.items()],
        "WorkingDir": task.cwd,
        "User": task.user,
        "Labels": dict(task.labels),
        "HostConfig": {name: value for name, value in host.items() if value},
    }
    return {name: value for name, value in settings.items() if value is not None}


# Files copied out of a container: a tar stream from the engine, into files of data folders.
#
# The engine and the image are not trusted: a name never leads out of the folder, links and devices are left out, and
# the sum of all bytes is bounded. Files are written by a thread, part by part, so memory stays flat.


class _Parts:
    """A file that a thread reads and the event loop fills."""

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
    """Write the files of the tar; returns the number of files and bytes. ToolError `container.error` for an invalid
    tar."""
    source = _Parts()
    writing = asyncio.ensure_future(asyncio.to_thread(_write_artifact, artifact, source))
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
        while not writing.done():  # a thread cannot be cancelled, and must not write after the task has ended
            await asyncio.wait([writing])
    return writing.result()


def _write_artifact(artifact: Artifact, source: _Parts) -> dict[str, Any]:
    files = size = 0
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                # No links, devices or folders: such entries of a tar could lead out of the folder.
                if not member.isfile():
                    continue
                files, size = files + 1, size + member.size
                if files > MAX_FILES or size > MAX_BYTES:
                    raise ToolError("container.error", f"{artifact.path} is more than may be copied out")
                _write(archive, member, _target_file(artifact, member.name))
    except (tarfile.TarError, OSError, ValueError, EOFError) as problem:
        raise ToolError("container.error", f"{artifact.path} could not be copied out: {problem}") from None
    return {"path": artifact.path, "file": artifact.file, "files": files, "bytes": size}


def _target_file(artifact: Artifact, name: str) -> Path:
    """The engine packs everything below the last part of the path: that part becomes `file`."""
    parts = PurePosixPath(name).parts
    below = [part for part in parts[1:] if part not in ("..", "/")]
    return Path(artifact.file, *below)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None, "it is a file"
    # No link: another program may have left one in the data folder.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place, flags, 0o644), "wb") as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
