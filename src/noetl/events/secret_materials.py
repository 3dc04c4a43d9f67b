"""Materials: the values of named secrets, on its way from a resolver to a tool call, in memory only (KEY-07). Also
credentials as they are stored, encrypted, and the masking of records (KEY-06).

Neither an event nor an order ever holds a material. Printing one shows no value. `masked` takes secrets out of a record
before it is stored: out of data of any kind, and out of the few texts that tools and people write (the message of an
error, standard output). Other texts of a record are names and ids; masking those would break the run and hide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from noetl.base.redaction import Redactor
from noetl.events.outcomes import Error, Meta

VALUE = "value"  # the field of a secret that is one text
# Fields of credentials that are addresses or options; every other field is secret. Masking a host or a database's name
# would turn `postgres` into `***` in every result.
_OPEN = frozenset(
    {"type", "kind", "auth_type", "account_type", "token_type", "scheme", "host", "hostname", "port", "region"}
    | {"database", "dbname", "db", "schema", "sslmode", "ssl", "tls", "starttls", "dialect"}
    | {"user", "username", "login"}
    | {"scope", "scopes", "audience", "expires_at", "expires_in"}
    | {"auth_uri", "token_uri", "auth_provider_x509_cert_url", "universe_domain"}
)
_WEB = frozenset({"http", "https", "ws", "wss"})
_LONG_SEGMENT, _MIXED_SEGMENT = 12, 8  # characters of a part of a path that is masked alone; the shorter has a digit
_ASSIGNMENT = re.compile(r"""(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*(["']?)(.+?)\2[ \t]*\r?$""")
_MAX_JSON = 1 << 20  # characters of a text that is looked at as JSON


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are read as `keychain.name.field` and given to tools for `auth: name`. `refresh_after`: the time from
    which it should be asked for again (KEY-04)."""

    fields: dict[str, Any]
    refresh_after: float | None = None

    def __repr__(self) -> str:
        return f"Material({', '.join(self.fields)})"

    def text_or_fields(self) -> Any:
        """The secret itself if it is one text, else its fields."""
        return self.fields.get(VALUE, self.fields)

    def due(self, now: float) -> bool:
        return self.refresh_after is not None and self.refresh_after <= now


def secrets_in(material: Material) -> Iterator[str]:
    """Every text of a material that must never be seen, with what is secret inside its URLs, its JSON texts and its
    assignments (`.env`), and its user:password."""
    for field, value in material.fields.items():
        if field not in _OPEN:
            yield from _texts(value)
    user = next((material.fields[key] for key in ("username", "user", "login") if key in material.fields), None)
    password = material.fields.get("password")
    if isinstance(user, str) and isinstance(password, str):
        # Basic authentication carries the pair; masking covers its Base64 form as well.
        yield f"{user}:{password}"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            if "://" in value:
                yield from _in_url(value)
            yield from _in_text(value)
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


def _in_text(text: str) -> Iterator[str]:
    """The leaves of a credential that is a JSON text, the values of one that is a `.env` file."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MAX_JSON:
        try:
            yield from _texts(msgspec.json.decode(text))
        # It only looked like JSON; then it is an ordinary text.
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            return
    for name, _, value in _ASSIGNMENT.findall(text):
        if not _is_open(name) and value.strip("="):
            yield value
            if "://" in value:
                yield from _in_url(value)


def _is_open(name: str) -> bool:
    """Whether a variable is an address or an option and no secret: HOST, and DB_HOST as well."""
    return name.lower() in _OPEN or name.lower().rpartition("_")[2] in _OPEN


def _in_url(url: str) -> Iterator[str]:
    """Its password; of an address on the web also the values of its query, and its path if that looks like a key.
    The path of any other is the name of a database or a topic."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password:
        # As written in the URL and as a driver shows it in its errors.
        yield from (password, unquote(password))
    for name, value in parse_qsl(parts.query):
        if name.lower() not in _OPEN and (parts.scheme in _WEB or "pass" in name.lower()):
            yield value
    if parts.scheme in _WEB:
        yield from _in_path(parts.path, parts.query)


def _in_path(path: str, query: str) -> Iterator[str]:
    keys = [one for one in path.split("/") if _looks_like_key(one)]
    if keys or query:
        yield f"{path}?{query}" if query else path
    if keys:
        yield from (path, *keys, *map(unquote, keys))


def _looks_like_key(segment: str) -> bool:
    return len(segment) >= _LONG_SEGMENT or (len(segment) >= _MIXED_SEGMENT and any(sign.isdigit() for sign in segment))


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


# Credentials as they are kept: sealed. Nothing here can be read without the master key (reliability.md §2.6).


class SealedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """One stored credential."""

    name: str
    type: str
    # Counts how often it was set. Bound to the ciphertext, so that an older row does not open in the place of a newer.
    version: int
    # The master key that seals `wrapped_key`: rotation encrypts only the small key again, never the value.
    key_id: str
    wrapped_key: bytes  # the data key of this value alone
    sealed: bytes  # the value, under that data key
    fingerprint: str  # equal for equal values, without showing the value
    created_at: float
    updated_at: float


Record = TypeVar("Record", bound=msgspec.Struct)

# Text fields that may contain text of tools and people; the type `str` alone does not say so.
_WRITTEN: dict[type, frozenset[str]] = {Error: frozenset({"message", "code"}), Meta: frozenset({"stdout"})}


def masked(record: Record, redactor: Redactor) -> Record:
    """The record without secrets; the same object if it has none."""
    if redactor.idle:
        return record
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    new = {name: _part(type(record), name, value, redactor) for name, value in fields.items()}
    return with_changes(record, {name: value for name, value in new.items() if value is not fields[name]})


def with_changes(record: Record, changes: dict[str, Any]) -> Record:
    return msgspec.structs.replace(record, **changes) if changes else record


def _part(owner: type, field: str, value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.text(value) if field in _text_fields(owner) else value
        case msgspec.Struct():
            return masked(value, redactor)
        case tuple():
            return _masked_each(value, redactor)
        # Results of tasks, by name: records, whose ids must stay readable.
        case dict() if any(isinstance(item, msgspec.Struct) for item in value.values()):
            return {key: masked(item, redactor) for key, item in value.items()}
        case dict() | list():
            return redactor.data(value)
        # A secret may be a number, such as a PIN, and come back as one.
        case int() | float() if field in _any_fields(owner):
            return redactor.data(value)
        case _:
            return value


def _masked_each(values: tuple[Any, ...], redactor: Redactor) -> tuple[Any, ...]:
    """The records and the data of a tuple; one of plain names or numbers stays."""
    new = tuple(_item(item, redactor) for item in values)
    return values if all(a is b for a, b in zip(values, new, strict=True)) else new


def _item(value: Any, redactor: Redactor) -> Any:
    match value:
        case msgspec.Struct():
            return masked(value, redactor)
        case dict() | list():
            return redactor.data(value)
        case _:
            return value


def _text_fields(owner: type) -> frozenset[str]:
    return _any_fields(owner) | _WRITTEN.get(owner, frozenset())


@lru_cache(maxsize=256)
def _any_fields(owner: type) -> frozenset[str]:
    """The fields with data of a tool."""
    return frozenset(field.name for field in msgspec.structs.fields(owner) if field.type is Any)
