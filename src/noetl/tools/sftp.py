"""`sftp`: files of another machine. Large files stream to and from local files; a new file appears complete or not."""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import asyncssh

from noetl.base.errors import ToolError
from noetl.tools.contents import MAX_BYTES, decode, encode
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.files import allowed_path, file_too_large, max_file_bytes
from noetl.tools.kinds.people_and_machines import SFTP_OPERATIONS
from noetl.tools.ssh import connection_lost, connection_to, machine_of

_CHUNK = 1 << 20
# A listing becomes a result, so it has a limit.
_MOST_NAMES = 10_000
_INPUT = "sftp.input"

Operation = Callable[[asyncssh.SFTPClient, str, Mapping[str, Any], ToolContext], Awaitable[dict[str, Any]]]


class SftpTool(Tool):
    """The tool of the kind `sftp`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op, path = str(inputs.get("op") or ""), str(inputs.get("path") or "")
        if op not in SFTP_OPERATIONS:
            raise ToolError(_INPUT, f'op "{op}" is not known: write {", ".join(SFTP_OPERATIONS)}')
        if not path or "\x00" in path:
            raise ToolError(_INPUT, '"path" is missing, or holds a NUL character')
        machine = machine_of(inputs.get("auth"), context, kind="sftp")
        async with connection_to(machine, context) as connection:
            try:
                async with connection.start_sftp_client() as client:
                    return ToolResult(result=await _OPERATIONS[op](client, path, inputs, context))
            except asyncssh.SFTPError as problem:
                raise _failure(problem, f"{op} of {path} on {machine}") from None
            except (asyncssh.Error, OSError) as problem:
                raise connection_lost(problem, machine) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by opening SFTP."""
        machine = machine_of(inputs.get("auth"), context, kind="sftp")
        async with connection_to(machine, context) as connection, connection.start_sftp_client():
            return f"opened SFTP on {machine}"


async def _get(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    limit = context.spec.get("max_bytes") or MAX_BYTES
    body = bytearray()
    file: Any
    async with client.open(path, "rb") as file:
        while chunk := await file.read(_CHUNK):
            body += chunk
            if len(body) > limit:  # checked while reading: a device, or a growing file, has no reliable size
                message = f"{path} has more than {limit} bytes: download it to a file"
                raise ToolError("result.too_large", message)
    return {"path": path, "size": len(body), "value": decode(bytes(body), inputs.get("format"), kind="sftp")}


async def _put(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    if "data" not in inputs:
        raise ToolError(_INPUT, 'put needs "data"; to send a file, upload it')
    body = encode(inputs["data"], inputs.get("format"), kind="sftp")

    async def write(file: asyncssh.SFTPClientFile) -> None:
        for start in range(0, len(body), _CHUNK):
            await file.write(body[start : start + _CHUNK])

    await _replace(client, path, write, inputs, context)
    return {"path": path, "size": len(body), "checksum": f"sha256:{hashlib.sha256(body).hexdigest()}"}


async def _upload(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    source, digest = _local(inputs, context), hashlib.sha256()

    async def write(file: asyncssh.SFTPClientFile) -> None:
        with source.open("rb") as local:
            # In a thread: a slow disk must not block the event loop of the worker.
            while chunk := await asyncio.to_thread(local.read, _CHUNK):
                digest.update(chunk)
                await file.write(chunk)

    if not source.is_file():
        raise ToolError(_INPUT, f'"{inputs.get("file")}" is no file')
    await _replace(client, path, write, inputs, context)
    return {"path": path, "size": source.stat().st_size, "checksum": f"sha256:{digest.hexdigest()}"}


async def _replace(
    client: asyncssh.SFTPClient,
    path: str,
    write: Callable[[asyncssh.SFTPClientFile], Awaitable[None]],
    inputs: Mapping[str, Any],
    context: ToolContext,
) -> None:
    """Write to a temporary file in the same folder and rename it. A repeated attempt uses the same temporary name."""
    # Checked before the rename, not with it: a file that appears in between is replaced.
    if inputs.get("if_absent") is True and await client.exists(path):
        raise ToolError("sftp.conflict", f"{path} exists already")
    attempt_mark = hashlib.sha256(context.task_run.idempotency_key.encode()).hexdigest()[:12]
    folder, name = posixpath.split(path)
    temporary = posixpath.join(folder, f".{name}.{attempt_mark}.part")
    try:
        async with client.open(temporary, "wb") as file:
            await write(file)
        try:
            # Replaces an existing file in one step; the plain rename of SFTP fails if the target exists.
            await client.posix_rename(temporary, path)
        # An extension of OpenSSH, which other servers lack. Theirs fails if the file exists, and leaves it as it was.
        except asyncssh.SFTPOpUnsupported:
            await client.rename(temporary, path)
    except BaseException:
        with suppress(asyncssh.Error, OSError):
            await client.remove(temporary)
        raise


async def _download(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    target, digest, size = _local(inputs, context), hashlib.sha256(), 0
    limit = max_file_bytes(context, error=_INPUT)
    temporary = target.with_name(f".{target.name}.part")
    # Opened before any request to the machine: an error of the local disk is not one of the connection, nor worth a
    # retry.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        local = temporary.open("wb")
    except OSError as problem:
        raise _unwritable(inputs, problem) from None
    try:
        file: Any
        with local:
            async with client.open(path, "rb") as file:
                while chunk := await file.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    if size > limit:  # counted as they arrive: the size that the machine gives may be wrong
                        raise file_too_large(path, limit)
                    await _write(local, chunk, inputs)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return {"path": path, "file": str(target), "size": size, "checksum": f"sha256:{digest.hexdigest()}"}


async def _write(local: BinaryIO, chunk: bytes, inputs: Mapping[str, Any]) -> None:
    try:
        await asyncio.to_thread(local.write, chunk)
    except OSError as problem:  # a full disk is no lost connection
        raise _unwritable(inputs, problem) from None


def _unwritable(inputs: Mapping[str, Any], problem: OSError) -> ToolError:
    return ToolError("sftp.error", f'"{inputs["file"]}" cannot be written here: {problem.strerror}')


async def _list(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    rows = []
    async for entry in client.scandir(path):
        name = str(entry.filename)
        if name in (".", ".."):
            continue
        attributes = entry.attrs
        is_folder = attributes.permissions is not None and stat.S_ISDIR(attributes.permissions)
        rows.append(
            {
                "name": name,
                "path": posixpath.join(path, name),
                "size": attributes.size,
                "folder": is_folder,
                "modified_at": attributes.mtime,
            }
        )
        if len(rows) > _MOST_NAMES:
            raise ToolError("result.too_large", f"{path} holds more than {_MOST_NAMES} names")
    return {"path": path, "files": sorted(rows, key=lambda row: str(row["name"])), "count": len(rows)}


async def _delete(
    client: asyncssh.SFTPClient, path: str, inputs: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    """Delete a file. A missing one is no error: a repeated attempt finds it deleted."""
    try:
        await client.remove(path)
    except asyncssh.SFTPNoSuchFile:
        return {"path": path, "deleted": 0}
    return {"path": path, "deleted": 1}


def _local(inputs: Mapping[str, Any], context: ToolContext) -> Path:
    if not inputs.get("file"):
        raise ToolError(_INPUT, '"file" is missing: a path in a data folder')
    return Path(allowed_path(str(inputs["file"]), context.permissions.data_folders, kind=_INPUT))


def _failure(problem: asyncssh.SFTPError, what: str) -> ToolError:
    text = "".join(char if char.isprintable() else " " for char in problem.reason)[:200]
    match problem:
        case asyncssh.SFTPNoSuchFile() | asyncssh.SFTPNoSuchPath():
            kind = "sftp.missing"
        case asyncssh.SFTPPermissionDenied() | asyncssh.SFTPWriteProtect():
            kind = "sftp.denied"
        case asyncssh.SFTPFileAlreadyExists():
            kind = "sftp.conflict"
        case _:
            kind = "sftp.error"
    lost = isinstance(problem, asyncssh.SFTPConnectionLost | asyncssh.SFTPNoConnection)
    return ToolError(kind, f"{what}: {text}", retryable=lost, code=str(problem.code))


_OPERATIONS: dict[str, Operation] = {
    "get": _get,
    "put": _put,
    "list": _list,
    "delete": _delete,
    "download": _download,
    "upload": _upload,
}
