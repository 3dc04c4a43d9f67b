"""`storage`: reads, writes, lists, copies and watches objects of S3, Google Cloud Storage, Azure and local folders.
`gcs` is the same for one bucket of Google Cloud Storage.

The work is done by a child process: the driver reads credentials from its environment, and the child has none. The
child reaches the network through a proxy that holds to the address policy, streams what it copies, and is killed when
the task is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.files import allowed_path
from noetl.tools.storage.inputs import request_of
from noetl.tools.tables.stored import fetched_table, table_folder, table_in

if find_spec("obstore") is None:  # the child imports it; say so before there is one
    raise ImportError("obstore is not installed")


_PROGRAM = Program(module="noetl.tools.storage.child", name="object storage", error="storage.error", retryable=True)


class StorageTool:
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if inputs.get("op", inputs.get("operation")) == "put" and table_in(inputs.get("data")) is not None:
            return await self._put_table(inputs, context)
        request = msgspec.to_builtins(request_of(inputs, context))
        answer = await self._children.call(context.execution_id, request)
        return ToolResult(result=answer["result"])

    async def _put_table(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """A table is written as the file that it is, streamed by a copy."""
        for name in ("format", "media_type", "if_match"):
            if inputs.get(name) is not None:
                raise ToolError("storage.input", f'"{name}" is not for a table, which is written as Parquet')
        target_of = request_of({**inputs, "data": ""}, context).source.location  # before a large file is fetched
        if target_of.provider == "file":
            allowed_path(target_of.key, context.data_folders, kind="storage.input")
        with table_folder() as folder:
            file = await fetched_table(inputs["data"], context, folder / "table.parquet")
            target: dict[str, Any] = {"url": inputs.get("url"), "auth": inputs.get("auth")}
            copy = {
                "op": "copy",
                "url": f"file:{file}",
                "target": {name: value for name, value in target.items() if value is not None},
                **({"if_absent": inputs["if_absent"]} if inputs.get("if_absent") is not None else {}),
            }
            within = msgspec.structs.replace(context, data_folders=(*context.data_folders, str(folder)))
            copied = await self.run(copy, within)
        return ToolResult(result={name: value for name, value in copied.result.items() if name != "source"})

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Objects that are new or changed since the cursor, the oldest first."""
        found = await self.run({**inputs, "op": "watch", "cursor": poll.cursor, "limit": poll.limit}, context)
        items = [
            TriggerItem(item_id=f"{one['url']} {one['etag'] or ''} {one['last_modified']}", value=one)
            for one in found.result["objects"]
        ]
        return TriggerBatch(items=tuple(items), cursor=found.result["cursor"])

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the credential opens the store: lists one object. ToolError says why it does not."""
        await self.run({"op": "list", "limit": 1, **inputs}, context)
        return f"listed {inputs.get('url')}"

    def release(self, execution_id: str) -> None:
        self._children.release(execution_id)

    async def close(self) -> None:
        await self._children.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


# `gcs`: the `storage` tool for one bucket of Google Cloud Storage, by bucket and object.


class GcsTool(StorageTool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run(storage_inputs(inputs), context)


def storage_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same request, as `storage` takes it. ToolError `storage.input` says what is missing."""
    op, auth = str(inputs.get("op") or ""), inputs.get("auth")
    source, destination = inputs.get("source"), inputs.get("destination")
    if op == "put" and "data" not in inputs:
        op = "upload"
    if op == "upload":
        if not source:
            raise ToolError("storage.input", 'upload needs "source": a file in a data folder')
        return {"op": "copy", "url": f"file:{source}", "target": {"url": _object(inputs, destination), "auth": auth}}
    if op == "download":
        if not destination:
            raise ToolError("storage.input", 'download needs "destination": a file in a data folder')
        return {"op": "copy", "url": _object(inputs, source), "target": f"file:{destination}", "auth": auth}
    kept = {name: inputs[name] for name in ("data", "media_type", "format") if name in inputs}
    return {"op": op, "url": _object(inputs, source), "auth": auth, **kept}


def _object(inputs: Mapping[str, Any], url: Any) -> str:
    if inputs.get("bucket"):
        return f"gs://{inputs['bucket']}/{inputs.get('object') or ''}"
    if isinstance(url, str) and url.startswith(("gs://", "gcs://")):
        return url
    raise ToolError("storage.input", '"bucket" is missing')
