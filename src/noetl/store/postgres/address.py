"""Address of a store in PostgreSQL: the URL its user gave, and the schema in it that is ours.

`postgresql://user:password@host:port/database`, with the options of libpq after `?`. `search_path` names the schema;
without it, `noetl`, so that our tables lie beside those of others and not among them.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from noetl.base.errors import BackendError

DEFAULT_SCHEMA = "noetl"
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# A young table looks small, and a plan made for it would be kept while it grows. Each of our statements has an index
# that gives what it wants in the order it wants.
_PLANNING = {f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")} | {"jit": "off"}

# Who has fallen silent in the middle of a transaction holds locks that all others wait for; the server ends it.
_SILENCE = {
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


class Address(msgspec.Struct, frozen=True):
    """`dsn` is for the driver and may hold a password; `shown` is for people and holds none."""

    dsn: str
    shown: str
    schema: str

    def connect_arguments(self) -> dict[str, Any]:
        settings = {"application_name": "noetl", "search_path": self.schema, **_PLANNING, **_SILENCE}
        return {"dsn": self.dsn, "server_settings": settings}


def address_of(url: str) -> Address:
    """BackendError when it cannot be one."""
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host = "" if parts.hostname is None else parts.netloc.rpartition("@")[2]
    except ValueError as problem:
        raise BackendError(f"this is no address of a database: {problem}") from None  # it may hold a password
    schema = dict(options).get("search_path", DEFAULT_SCHEMA)
    if not _PLAIN_NAME.fullmatch(schema):
        raise BackendError(f'search_path "{schema}" is not one plain schema name (lower case, digits, _)')
    others = [(name, value) for name, value in options if name != "search_path"]
    dsn = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(others), ""))
    where = host or dict(options).get("host", "")
    shown = f"postgresql://{where}{parts.path}" + (f" (schema {schema})" if schema != DEFAULT_SCHEMA else "")
    return Address(dsn=dsn, shown=shown, schema=schema)
