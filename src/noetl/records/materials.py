"""Materials: what a secret's name stands for, on its way from a resolver to a tool call, in memory only (KEY-07).

Neither an event nor an order ever holds one. Printing one shows no value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

VALUE = "value"  # the field of a secret that is one text

# Fields of credentials that say where and how, not what; everything else in a material is secret. Masking a host or a
# database's name would turn `postgres` into `***` in every result.
_OPEN = frozenset(
    {"type", "kind", "auth_type", "account_type", "token_type", "scheme", "host", "hostname", "port", "region"}
    | {"database", "dbname", "db", "schema", "sslmode", "ssl", "user", "username", "login"}
    | {"scope", "scopes", "audience", "expires_at", "expires_in"}
)


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are read as `keychain.name.field` and given to tools for `auth: name`. `refresh_after`: the time from
    which it should be asked for again (KEY-04)."""

    fields: dict[str, Any]
    refresh_after: float | None = None

    def __repr__(self) -> str:
        return f"Material({', '.join(self.fields)})"

    def whole(self) -> Any:
        """The secret itself where it is one text, else its fields."""
        return self.fields.get(VALUE, self.fields)

    def due(self, now: float) -> bool:
        return self.refresh_after is not None and self.refresh_after <= now


def secrets_in(material: Material) -> Iterator[str]:
    """Every text of a material that must never be seen, with the passwords inside its URLs and its user:password."""
    for field, value in material.fields.items():
        if field not in _OPEN:
            yield from _texts(value)
    user = next((material.fields[key] for key in ("username", "user", "login") if key in material.fields), None)
    password = material.fields.get("password")
    if isinstance(user, str) and isinstance(password, str):
        yield f"{user}:{password}"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            if "://" in value:
                yield from _in_url(value)
            if "\n" in value:  # a key of many lines is often shown line by line
                yield from (line for line in value.splitlines() if len(line) >= 16)
        case dict():
            for field, item in value.items():
                if field not in _OPEN:
                    yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)
        case bool() | None:
            return
        case int() | float():
            yield str(value)


def _in_url(url: str) -> Iterator[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A worker asks for one secret, under the lease of an order (KEY-07).

    `name` is a keychain entry or a stored credential; with `kind` it is looked up by that resolver instead (TOOL-09).
    `renew`: what is kept of it is to be dropped first (KEY-04).
    """

    execution_id: str
    order_id: str
    lease_epoch: int
    worker_id: str
    name: str
    kind: str = ""
    lookup: dict[str, Any] = {}
    renew: bool = False
