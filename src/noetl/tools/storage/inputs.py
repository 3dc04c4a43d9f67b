"""Inputs: what a task asks for, and as whom, as a request to the child process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contents import MAX_BYTES, encoded
from noetl.tools.contract import ToolContext
from noetl.tools.kinds.storage import STORAGE_OPS
from noetl.tools.storage.request import (
    DEFAULT_TIMEOUT_S,
    EXPIRES_S,
    INTERVAL_S,
    LIMIT,
    End,
    StorageRequest,
    location_of,
)

_LONGEST_URL_S = 7 * 86_400  # what S3 and Google sign at most
_MOST = 100_000


def request_of(inputs: Mapping[str, Any], context: ToolContext) -> StorageRequest:
    """The request of a task. ToolError `storage.input` says what does not fit."""
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
    return StorageRequest(
        op=op,
        source=source,
        target=_target(inputs.get("target"), source, inputs.get("auth"), context) if op == "copy" else None,
        body=encoded(data, form, kind="storage") if op == "put" else b"",
        media_type=str(inputs.get("media_type") or _media_type(data, form)),
        if_absent=inputs.get("if_absent") is True,
        if_match=inputs.get("if_match"),
        first_byte=first,
        end_byte=end,
        max_bytes=_count(context.spec.get("max_bytes"), "spec.max_bytes", MAX_BYTES, MAX_BYTES),
        format=form,
        pattern=str(inputs.get("pattern") or ""),
        recursive=inputs.get("recursive"),
        limit=_count(inputs.get("limit"), "limit", LIMIT, _MOST),
        cursor=inputs.get("cursor"),
        wait_s=_duration(inputs, "wait", 0.0),
        interval_s=max(_duration(inputs, "interval", INTERVAL_S), 0.05),
        expires_s=_expires(inputs),
        method=str(inputs.get("method") or "GET").upper(),
        key=context.idempotency_key,
        folders=context.data_folders,
        policy=context.addresses.policy,
        timeout_s=_timeout_s(context),
    )


def byte_range(written: Any) -> tuple[int, int | None]:
    """The first byte and the one after the last: "10-19" counts from zero and includes both, as HTTP does."""
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
    raise ToolError("storage.input", f'"{written}" is no range: write "0-99", or {{offset: 0, limit: 100}}')


def _end(url: Any, auth: Any, context: ToolContext, *, name: str = "url") -> End:
    location = location_of(url, name=name)
    return End(location, store_fields(auth, location.provider, context))


def _target(written: Any, source: End, auth: Any, context: ToolContext) -> End:
    """Where a copy goes. Without a credential of its own it has that of the source, at the same provider."""
    url, own = (written.get("url"), written.get("auth")) if isinstance(written, Mapping) else (written, None)
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
    if not 1 <= expires_s <= _LONGEST_URL_S:
        raise ToolError("storage.input", f"expires is {expires_s:g} s: a URL can be valid for 1 s to 7 days")
    return expires_s


def _count(written: Any, name: str, default: int, most: int) -> int:
    if written is None:
        return default
    if not _is_count(written) or not 1 <= written <= most:
        raise ToolError("storage.input", f'{name} "{written}" is not a number from 1 to {most}')
    return int(written)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _timeout_s(context: ToolContext) -> float:
    timeout = context.spec.get("timeout")
    timeout = timeout.get("total", timeout.get("read")) if isinstance(timeout, Mapping) else timeout
    return seconds(timeout) if timeout is not None else DEFAULT_TIMEOUT_S


# Credentials of object stores: which fields each provider takes, under the names people know them by.
# Nothing comes from the environment of the worker: a task without `auth` asks as anybody, unsigned.
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
    """The settings of a store of this provider. ToolError `keychain.unresolved` says what is missing."""
    if provider == "file":
        return {}
    given = connection_fields(auth, context, kind="storage", address="endpoint") if auth else {}
    names = FIELDS[provider]
    found = {field: _first(given, spellings) for field, spellings in names.items()}
    if provider == "gs" and given.get("private_key"):  # a service account's key file, field by field
        found["service_account_key"] = msgspec.json.encode(_account(given)).decode()
    fields = {field: value for field, value in found.items() if value not in (None, "")}
    for group in _TOGETHER:
        missing = [field for field in group if field in names and field not in fields]
        if missing and len(missing) < len([field for field in group if field in names]):
            raise ToolError(UNRESOLVED, f'the credential has no "{missing[0]}", which belongs to its other fields')
    if not _SECRETS & fields.keys() and "client_id" not in fields:
        fields["skip_signature"] = True
    return fields


def _account(given: Mapping[str, Any]) -> dict[str, Any]:
    known = ("type", "client_email", "private_key", "private_key_id", "token_uri", "project_id")
    return {"private_key_id": "", "client_email": ""} | {name: given[name] for name in known if given.get(name)}


def _first(given: Mapping[str, Any], spellings: tuple[str, ...]) -> Any:
    found = next((given[name] for name in spellings if given.get(name) not in (None, "")), None)
    return found if isinstance(found, bool) or found is None else str(found)
