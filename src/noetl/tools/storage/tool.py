"""`storage`: reads, writes, lists, copies and watches objects of S3, Google Cloud Storage, Azure and local folders.
`gcs` is the same for one bucket of Google Cloud Storage.

A child process does the work: the driver reads credentials from its environment, and the child has none there. The
child uses a proxy that applies the address policy, streams copies, and is killed when the task is cancelled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contents import MAX_BYTES, encode
from noetl.tools.contract import OwningTool, ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.files import allowed_path, max_file_bytes
from noetl.tools.input_shapes import UNRESOLVED, connection_fields, timeout_s, whole_number
from noetl.tools.kinds.storage import STORAGE_OPS
from noetl.tools.storage.request import (
    DEFAULT_TIMEOUT_S,
    EXPIRES_S,
    INTERVAL_S,
    LIMIT,
    End,
    LinkOptions,
    ListingOptions,
    ObjectContent,
    ReadPart,
    StorageRequest,
    WriteCondition,
    location_of,
    part_of,
)
from noetl.tools.table_files import fetched_table, table_folder, table_in

if find_spec("obstore") is None:  # the child imports it; fail here, before a child starts
    raise ImportError("obstore is not installed")

_MAX_EXPIRES_S = 7 * 86_400  # the longest validity that S3 and Google sign
_MAX_LIMIT = 100_000


def request_of(inputs: Mapping[str, Any], context: ToolContext) -> StorageRequest:
    """The request of a task. Raises ToolError `storage.input` for inputs that do not fit."""
    op = str(inputs.get("op") or "")
    if op not in STORAGE_OPS:
        raise ToolError("storage.input", f'op "{op}" is not known: write {", ".join(STORAGE_OPS)}')
    source = _end(inputs.get("url"), inputs.get("auth"), context)
    first, end = byte_range(inputs.get("range"))
    data, form = inputs.get("data"), str(inputs.get("format") or "auto")
    if op == "put" and "data" not in inputs:
        raise ToolError(
            "storage.input", 'put needs "data"; to store a file, copy it: {op: copy, url: file:…, target: …}'
        )
    if op == "copy":
        max_bytes = max_file_bytes(context, error="storage.input")
    else:
        written = context.spec.get("max_bytes")
        max_bytes = whole_number(written, "spec.max_bytes", MAX_BYTES, error="storage.input", most=MAX_BYTES)
    return StorageRequest(
        op=op,
        source=source,
        target=_target(inputs.get("target"), source, inputs.get("auth"), context) if op == "copy" else None,
        content=ObjectContent(
            body=encode(data, form, kind="storage") if op == "put" else b"",
            media_type=str(inputs.get("media_type") or _media_type(data, form)),
            format=form,
        ),
        part=ReadPart(first, end, max_bytes),
        condition=WriteCondition(
            if_absent=inputs.get("if_absent") is True,
            if_match=inputs.get("if_match"),
            key=context.task_run.idempotency_key,
        ),
        listing=_listing_options(inputs),
        link=LinkOptions(expires_s=_expires(inputs), method=str(inputs.get("method") or "GET").upper()),
        folders=context.permissions.data_folders,
        policy=context.addresses.policy,
        timeout_s=timeout_s(context, DEFAULT_TIMEOUT_S),
    )


def _listing_options(inputs: Mapping[str, Any]) -> ListingOptions:
    return ListingOptions(
        pattern=str(inputs.get("pattern") or ""),
        recursive=inputs.get("recursive"),
        limit=whole_number(inputs.get("limit"), "limit", LIMIT, error="storage.input", most=_MAX_LIMIT),
        cursor=inputs.get("cursor"),
        wait_s=_duration(inputs, "wait", 0.0),
        interval_s=max(_duration(inputs, "interval", INTERVAL_S), 0.05),
    )


def byte_range(written: Any) -> tuple[int, int | None]:
    """First byte and end (exclusive): "10-19" counts from zero and includes both ends, as in HTTP."""
    if written is None:
        return 0, None
    if isinstance(written, Mapping):
        offset, limit = written.get("offset", 0), written.get("limit")
        if _is_count(offset) and (limit is None or _is_count(limit)):
            return offset, None if limit is None else offset + limit
    else:
        first, dash, last = str(written).replace(" ", "").partition("-")
        if dash and first.isdecimal() and (not last or last.isdecimal()) and len(first + last) < 40:
            return int(first), int(last) + 1 if last else None
    raise ToolError("storage.input", f'"{written}" is not a range: write "0-99", or {{offset: 0, limit: 100}}')


def _end(url: Any, auth: Any, context: ToolContext, *, name: str = "url") -> End:
    location = location_of(url, name=name)
    return End(location, store_fields(auth, location.provider, context))


def _target(written: Any, source: End, auth: Any, context: ToolContext) -> End:
    """The target of a copy. Without its own credential it uses that of the source, at the same provider."""
    url, own = (written.get("url"), written.get("auth")) if isinstance(written, Mapping) else (written, None)
    # A credential never goes to another provider than the one the task names it for.
    if own is None and location_of(url, name="target").provider == source.location.provider:
        own = auth
    return _end(url, own, context, name="target")


def _media_type(data: Any, form: str) -> str:
    if form == "base64":
        return "application/octet-stream"
    return "text/plain; charset=utf-8" if isinstance(data, str) else "application/json"


def _duration(inputs: Mapping[str, Any], name: str, default: float) -> float:
    written = inputs.get(name)
    try:
        return default if written is None else seconds(written)
    except ValueError as problem:
        raise ToolError("storage.input", f"{name}: {problem}") from None


def _expires(inputs: Mapping[str, Any]) -> float:
    expires_s = _duration(inputs, "expires", EXPIRES_S)
    if not 1 <= expires_s <= _MAX_EXPIRES_S:
        raise ToolError("storage.input", f"expires is {expires_s:g} s: a URL can be valid for 1 s to 7 days")
    return expires_s


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Credentials of object stores: the fields of each provider, with the spellings that people use.
# Nothing comes from the environment of the worker: requests of a task without `auth` are unsigned.
_S3 = {
    "access_key_id": ("access_key_id", "aws_access_key_id", "access_key", "key_id"),
    "secret_access_key": ("secret_access_key", "aws_secret_access_key", "secret_key"),
    "session_token": ("session_token", "aws_session_token"),
    "region": ("region", "aws_region", "region_name"),
    "endpoint": ("endpoint", "endpoint_url", "aws_endpoint_url"),
    "virtual_hosted_style_request": ("virtual_hosted",),
    "ca": ("ca",),
}
_GCS = {
    "service_account_key": ("service_account_key", "service_account_json"),
    "bearer_token": ("bearer_token", "access_token", "token"),
    "base_url": ("endpoint", "base_url"),
    "ca": ("ca",),
}
_AZURE = {
    "account_name": ("account_name", "account"),
    "account_key": ("account_key", "access_key"),
    "sas_key": ("sas_token", "sas_key"),
    "client_id": ("client_id",),
    "client_secret": ("client_secret",),
    "tenant_id": ("tenant_id", "tenant"),
    "token": ("bearer_token", "access_token", "token"),
    "endpoint": ("endpoint",),
    "ca": ("ca",),
}
FIELDS = {"s3": _S3, "gs": _GCS, "az": _AZURE, "file": {}}
_TOGETHER = (("access_key_id", "secret_access_key"), ("client_id", "client_secret", "tenant_id"))
_SECRETS = frozenset({"access_key_id", "service_account_key", "bearer_token", "account_key", "sas_key", "token"})


def store_fields(auth: Any, provider: str, context: ToolContext) -> dict[str, Any]:
    """The settings of a store. Raises ToolError `keychain.unresolved`, which names what is missing."""
    if provider == "file":
        return {}
    credential = connection_fields(auth, context, kind="storage", address="endpoint") if auth else {}
    names = FIELDS[provider]
    values = {field: _first_field(credential, spellings) for field, spellings in names.items()}
    if provider == "gs" and credential.get("private_key"):  # a service account's key file, field by field
        values["service_account_key"] = msgspec.json.encode(_account(credential)).decode()
    fields = {field: value for field, value in values.items() if value not in (None, "")}
    for group in _TOGETHER:
        missing = [field for field in group if field in names and field not in fields]
        if missing and len(missing) < len([field for field in group if field in names]):
            raise ToolError(UNRESOLVED, f'the credential has no "{missing[0]}", which its other fields need')
    # Otherwise the driver would look for a credential of the machine it runs on.
    if not _SECRETS & fields.keys() and "client_id" not in fields:
        fields["skip_signature"] = True
    return fields


def _account(credential: Mapping[str, Any]) -> dict[str, Any]:
    known = ("type", "client_email", "private_key", "private_key_id", "token_uri", "project_id")
    return {"private_key_id": "", "client_email": ""} | {
        name: credential[name] for name in known if credential.get(name)
    }


def _first_field(credential: Mapping[str, Any], spellings: tuple[str, ...]) -> Any:
    value = next((credential[name] for name in spellings if credential.get(name) not in (None, "")), None)
    return value if isinstance(value, bool) or value is None else str(value)


def _remove_part(request: StorageRequest) -> None:
    """Remove what a copy that failed has left beside its target."""
    if request.target is None or request.target.location.provider != "file":
        return
    with suppress(ToolError, OSError):  # a path that may not be opened was refused before
        place = allowed_path(request.target.location.key, request.folders, kind="storage.input")
        os.unlink(part_of(place, request.condition.key))


_PROGRAM = Program(module="noetl.tools.storage.child", name="object storage", error="storage.error", retryable=True)


class StorageTool(OwningTool):
    """The tool of the kind `storage`."""

    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if inputs.get("op", inputs.get("operation")) == "put" and table_in(inputs.get("data")) is not None:
            return await self._put_table(inputs, context)
        request = request_of(inputs, context)
        try:
            answer = await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
        finally:
            # Here, not in the child: it is killed if the task is cancelled.
            _remove_part(request)
        return ToolResult(result=answer["result"])

    async def _put_table(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Write a table as its Parquet file, streamed by a copy."""
        for name in ("format", "media_type", "if_match"):
            if inputs.get(name) is not None:
                raise ToolError("storage.input", f'"{name}" is not for a table, which is written as Parquet')
        # Checked before a large file is fetched for nothing.
        # `data` is the reference of a table, which `request_of` would take for the bytes to store.
        location = request_of({**inputs, "data": ""}, context).source.location
        if location.provider == "file":
            allowed_path(location.key, context.permissions.data_folders, kind="storage.input")
        with table_folder() as folder:
            file = await fetched_table(inputs["data"], context, folder / "table.parquet")
            target: dict[str, Any] = {"url": inputs.get("url"), "auth": inputs.get("auth")}
            copy = {
                "op": "copy",
                "url": f"file:{file}",
                "target": {name: value for name, value in target.items() if value is not None},
                **({"if_absent": inputs["if_absent"]} if inputs.get("if_absent") is not None else {}),
            }
            copied = await self.run(copy, context.with_folder(str(folder)))
        return ToolResult(result={name: value for name, value in copied.result.items() if name != "source"})

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Objects that are new or changed since the cursor, the oldest first."""
        watched = await self.run({**inputs, "op": "watch", "cursor": poll.cursor, "limit": poll.limit}, context)
        items = [
            TriggerItem(item_id=f"{row['url']} {row['etag'] or ''} {row['last_modified']}", value=row)
            for row in watched.result["objects"]
        ]
        return TriggerBatch(items=tuple(items), cursor=watched.result["cursor"])

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by listing one object. Raises ToolError with the reason if it is refused."""
        await self.run({"op": "list", "limit": 1, **inputs}, context)
        return f"listed {inputs.get('url')}"


class GcsTool(StorageTool):
    """The tool of the kind `gcs`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run(storage_inputs(inputs), context)


def storage_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of `storage` for a task of `gcs`. Raises ToolError `storage.input`, which names what is missing."""
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
    options = {name: inputs[name] for name in ("data", "media_type", "format") if name in inputs}
    return {"op": op, "url": _object(inputs, source), "auth": auth, **options}


def _object(inputs: Mapping[str, Any], url: Any) -> str:
    if inputs.get("bucket"):
        return f"gs://{inputs['bucket']}/{inputs.get('object') or ''}"
    if isinstance(url, str) and url.startswith(("gs://", "gcs://")):
        return url
    raise ToolError("storage.input", '"bucket" is missing')
