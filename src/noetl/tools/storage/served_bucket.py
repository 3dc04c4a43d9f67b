"""The bucket of a lake for the duration of one task: a child process (`file_service`) that alone has the credential and
the connections, and serves the bucket to the confined process of DuckDB."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_process import Child, Program
from noetl.tools.contract import ToolContext
from noetl.tools.duckdb.attachments import ObjectFolder
from noetl.tools.input_shapes import timeout_s
from noetl.tools.registry import is_installed
from noetl.tools.storage.request import DEFAULT_TIMEOUT_S, End, StorageRequest, location_of, schemes_of

_PROGRAM = Program(
    module="noetl.tools.storage.file_service", name="object storage", error="storage.error", retryable=True
)
_SCHEMES = frozenset(scheme for provider in ("s3", "gs", "az") for scheme in schemes_of(provider))


def is_object_url(written: object) -> bool:
    """Whether a path is the URL of an object store."""
    return isinstance(written, str) and written.partition("://")[0] in _SCHEMES and "://" in written


class ServedBucket:
    """A bucket that is served. `files` says where."""

    def __init__(self, url: str, child: Child, folder: Path) -> None:
        self._url, self._child, self._folder = url, child, folder
        location = location_of(url)
        schemes = schemes_of(location.provider)
        # The last one is as written: abfss:// has the account in it.
        roots = (*(f"{scheme}://{location.bucket}/" for scheme in schemes), "/".join(url.split("/")[:3]) + "/")
        self.files = ObjectFolder(socket=str(folder / "s"), schemes=schemes, roots=roots)

    async def call(self, request: dict[str, Any]) -> None:
        answer = await self._child.call(request)
        if (error := answer.get("error")) is not None:
            raise ToolError(error.pop("kind"), error.pop("message"), **error)

    async def local_table(self, *, is_latest: bool) -> str:
        """Copy the log of a Delta table to the disk. Returns the folder that DuckDB takes for that of the table."""
        # DuckDB puts the name of a file behind this folder: FOLDER/s3://bucket/table/name, which the file system of
        # objects knows by its beginning.
        self.files = msgspec.structs.replace(self.files, folder=str(self._folder / "t"))
        place = f"{self.files.folder}/{self._url.rstrip('/')}"
        await self.call({"folder": place, "is_latest": is_latest})
        return place


@asynccontextmanager
async def served_bucket(
    url: str, auth: Any, context: ToolContext, vended: Mapping[str, Any] | None = None, *, name: str = "path"
) -> AsyncIterator[ServedBucket]:
    """The bucket of `url`, which the task writes as `name`, with the credential `auth`, or with fields that a catalogue
    has vended."""
    if not is_installed("storage"):
        raise ToolError(
            "tool.unknown_kind", 'a lake in an object store needs an extra: pip install "noetl-engine[storage]"'
        )
    from noetl.tools.storage.tool import store_fields  # needs that extra

    location = location_of(url, name=name)
    fields = store_fields(vended if auth is None and vended else auth, location.provider, context)
    request = StorageRequest(
        op="get",
        source=End(location, fields),
        policy=context.addresses.policy,
        timeout_s=timeout_s(context, DEFAULT_TIMEOUT_S),
    )
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="noetl-lake-")))
    try:
        child = await Child.start(_PROGRAM)
        try:
            bucket = ServedBucket(url, child, folder)
            await bucket.call({"request": msgspec.to_builtins(request), "socket": bucket.files.socket})
            yield bucket
        finally:
            await child.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
