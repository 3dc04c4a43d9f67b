"""Locations: which object or folder a URL names."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.errors import ToolError

_PROVIDERS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "az"),
    "file": "file",
}
_EXAMPLES = "s3://bucket/key, gs://bucket/key, az://container/key or file:///folder/name"


class Location(msgspec.Struct, frozen=True):
    """`provider` is s3, gs, az or file. A file has no bucket; its key is its path as written."""

    provider: str
    bucket: str
    key: str
    account: str = ""  # of Azure, where the URL names it

    def __str__(self) -> str:
        return f"file:{self.key}" if self.provider == "file" else f"{self.provider}://{self.bucket}/{self.key}"


def location_of(url: object, *, name: str = "url") -> Location:
    """The location of a URL. ToolError `storage.input` says which URLs there are."""
    if not isinstance(url, str) or not url.strip():
        raise ToolError("storage.input", f'"{name}" is missing: write {_EXAMPLES}')
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        parts = urlsplit("")
    provider = _PROVIDERS.get(parts.scheme)
    if provider is None:
        raise ToolError("storage.input", f'"{name}" is no URL of an object: write {_EXAMPLES}')
    if "\x00" in url:
        raise ToolError("storage.input", f'"{name}" holds a NUL character')
    if provider == "file":
        return Location("file", "", unquote(url.strip().removeprefix("file:").removeprefix("//")))
    key = unquote(url.strip().split("/", 3)[3]) if url.strip().count("/") > 2 else ""
    if parts.username is None:
        return Location(provider, parts.netloc, key) if parts.netloc else _without_bucket(name)
    if provider != "az" or parts.password is not None:  # not shown: it may be a password
        raise ToolError("storage.input", f'"{name}" holds a login: put it into a credential, and name that in "auth"')
    return Location(provider, parts.username, key, (parts.hostname or "").partition(".")[0])


def _without_bucket(name: str) -> Location:
    raise ToolError("storage.input", f'"{name}" names no bucket: write {_EXAMPLES}')
