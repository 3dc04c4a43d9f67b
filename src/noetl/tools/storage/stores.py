"""Stores, in the child: opened by location, with nothing but the settings of the request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, LocalStore, ObjectStore, S3Store

from noetl.base.errors import ToolError
from noetl.tools.files import NO_FOLDER, OUTSIDE
from noetl.tools.storage.request import End, StorageRequest

_RETRY: dict[str, Any] = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}
_READ_S = 60


def opened(end: End, request: StorageRequest, proxy: str) -> tuple[ObjectStore, str]:
    """The store of an end, and the key in it."""
    location = end.location
    if location.provider == "file":
        return _local(location.key, request.folders)
    fields = dict(end.fields)
    client = _client_options(fields, request, proxy)
    make: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[location.provider]
    if location.account:
        fields.setdefault("account_name", location.account)
    if location.provider == "s3":
        fields.setdefault("region", "us-east-1")
    if location.provider == "az" and not fields.get("account_name"):
        raise ToolError("keychain.unresolved", 'the credential has no "account_name"')
    return make(location.bucket, config=fields, client_options=client, retry_config=_RETRY), location.key


def _client_options(fields: dict[str, Any], request: StorageRequest, proxy: str) -> dict[str, Any]:
    endpoint = str(fields.get("endpoint") or fields.get("base_url") or "")
    options: dict[str, Any] = {
        "proxy_url": proxy,
        "allow_http": endpoint.startswith("http://"),  # only where the credential itself says so
        "timeout": timedelta(seconds=request.timeout_s),
        "read_timeout": timedelta(seconds=min(_READ_S, request.timeout_s)),
        "connect_timeout": timedelta(seconds=min(10, request.timeout_s)),
        "user_agent": "noetl",
    }
    if authority := fields.pop("ca", None):
        options["root_certificate"] = authority
    return options


def _local(path: str, folders: Sequence[str]) -> tuple[ObjectStore, str]:
    """A file or folder below one of the open folders, once every link on the way is followed."""
    if not folders:
        raise ToolError("storage.input", f'"{path}" cannot be opened: {NO_FOLDER}')
    # Links are followed before the folder is compared: a link inside an open folder must not lead out of it.
    roots = [os.path.realpath(folder) for folder in folders]
    place = os.path.realpath(os.path.join(roots[0], path))
    root = next((root for root in roots if os.path.commonpath([root, place]) == root), None)
    if root is None:
        raise ToolError("storage.input", f'"{path}" is {OUTSIDE}')
    key = os.path.relpath(place, root)
    return LocalStore(root, automatic_cleanup=False), "" if key == "." else key
