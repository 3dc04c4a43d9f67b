"""Credentials of object stores: which fields each provider takes, under the names people know them by.

Nothing comes from the environment of the worker: a task without `auth` asks as anybody, unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext

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
