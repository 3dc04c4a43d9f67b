"""Requests of the tool to its child process, and the locations that URLs name."""

from __future__ import annotations

import hashlib
import os
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.contents import MAX_BYTES

DEFAULT_TIMEOUT_S = 300.0
EXPIRES_S, INTERVAL_S = 3600.0, 5.0
LIMIT = 1_000


class End(msgspec.Struct, frozen=True):
    """One object or folder, and the settings of its store."""

    location: Location
    fields: dict[str, Any] = {}


class ObjectContent(msgspec.Struct, frozen=True):
    """What `put` writes, and the form in which `get` returns an object."""

    body: bytes = b""
    media_type: str = ""
    format: str = "auto"


class ReadPart(msgspec.Struct, frozen=True):
    """The bytes of an object that `get` reads: all of them by default, and at most `max_bytes`. So many are also copied
    to a file."""

    first_byte: int = 0
    end_byte: int | None = None  # exclusive; None: the end of the object
    max_bytes: int = MAX_BYTES


class WriteCondition(msgspec.Struct, frozen=True):
    """When an object may be written. `key` is the idempotency key, by which an attempt recognises the object that an
    earlier attempt has written."""

    if_absent: bool = False
    if_match: str | None = None  # the ETag that the object must have
    key: str = ""


class ListingOptions(msgspec.Struct, frozen=True):
    """Which objects `list` and `watch` return; `delete` reads `recursive`."""

    pattern: str = ""
    recursive: bool | None = None
    limit: int = LIMIT
    cursor: Any = None  # `list` continues after this key; `watch` after this state of the folder
    wait_s: float = 0.0  # how long `watch` waits for a new object
    interval_s: float = INTERVAL_S


class LinkOptions(msgspec.Struct, frozen=True):
    """The presigned URL that `presign` returns."""

    expires_s: float = EXPIRES_S
    method: str = "GET"


class StorageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `folders` are the folders that file URLs may name."""

    op: str
    source: End
    target: End | None = None
    content: ObjectContent = ObjectContent()
    part: ReadPart = ReadPart()
    condition: WriteCondition = WriteCondition()
    listing: ListingOptions = ListingOptions()
    link: LinkOptions = LinkOptions()
    folders: tuple[str, ...] = ()
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = DEFAULT_TIMEOUT_S


def part_of(place: str, idempotency_key: str) -> str:
    """The temporary path of a file that a task writes. A repeated attempt uses the same one."""
    folder, name = os.path.split(place)
    mark = hashlib.sha256(idempotency_key.encode()).hexdigest()[:12]
    # With this ending, lists and watchers of the folder leave it out: the driver's own temporary files have it too.
    return os.path.join(folder, f".{name[:200]}.{mark}.part#1")


# The provider of each URL scheme.
_PROVIDERS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "az"),
    "file": "file",
}
_EXAMPLES = "s3://bucket/key, gs://bucket/key, az://container/key or file:///folder/name"


class Location(msgspec.Struct, frozen=True):
    """An object or folder. `provider` is s3, gs, az or file. A file has no bucket; its key is the path as written."""

    provider: str
    bucket: str
    key: str
    account: str = ""  # of Azure, if the URL has it

    def __str__(self) -> str:
        return f"file:{self.key}" if self.provider == "file" else f"{self.provider}://{self.bucket}/{self.key}"


def location_of(url: object, *, name: str = "url") -> Location:
    """The location of a URL. Raises ToolError `storage.input`, which names the forms of URLs."""
    if not isinstance(url, str) or not url.strip():
        raise ToolError("storage.input", f'"{name}" is missing: write {_EXAMPLES}')
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        parts = urlsplit("")
    provider = _PROVIDERS.get(parts.scheme)
    if provider is None:
        raise ToolError("storage.input", f'"{name}" is not a URL of an object: write {_EXAMPLES}')
    if "\x00" in url:
        raise ToolError("storage.input", f'"{name}" holds a NUL character')
    if provider == "file":
        return Location("file", "", unquote(url.strip().removeprefix("file:").removeprefix("//")))
    key = unquote(raw_key(url.strip()))
    if parts.username is None:
        return Location(provider, parts.netloc, key) if parts.netloc else _refuse_without_bucket(name)
    if provider != "az" or parts.password is not None:  # the message does not show it: it may be a password
        raise ToolError("storage.input", f'"{name}" holds a login: put it into a credential, and name that in "auth"')
    return Location(provider, parts.username, key, (parts.hostname or "").partition(".")[0])


def raw_key(url: str) -> str:
    """The key in a URL, as it is written."""
    # Not `urlsplit(url).path`: keys may contain ? and #, where a URL would be cut.
    return url.split("/", 3)[3] if url.count("/") > 2 else ""


def schemes_of(provider: str) -> tuple[str, ...]:
    """The URL schemes of a provider."""
    return tuple(scheme for scheme, known in _PROVIDERS.items() if known == provider)


def _refuse_without_bucket(name: str) -> Location:
    raise ToolError("storage.input", f'"{name}" names no bucket: write {_EXAMPLES}')
