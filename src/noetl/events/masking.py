"""Masking of records: secrets taken out of whatever is written down, whichever shape it has (KEY-06).

Content is masked: data of any kind, mappings and lists, and the few texts that tools and people write (the words of an
error, standard output). Other texts of a record are names and ids; masking those would break the run and hide nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from noetl.base.redaction import Redactor
from noetl.events.outcomes import Error, Meta

Record = TypeVar("Record", bound=msgspec.Struct)

# Text fields that hold other people's words, where the type `str` alone does not tell.
_WRITTEN: dict[type, frozenset[str]] = {Error: frozenset({"message", "code"}), Meta: frozenset({"stdout"})}


def masked(record: Record, redactor: Redactor) -> Record:
    """The record without secrets; the very same one when it has none."""
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
            return redactor.text(value) if field in _texts(owner) else value
        case msgspec.Struct():
            return masked(value, redactor)
        case tuple():
            return _each(value, redactor)
        case dict() if any(isinstance(item, msgspec.Struct) for item in value.values()):
            return {key: masked(item, redactor) for key, item in value.items()}
        case dict() | list():
            return redactor.data(value)
        # A secret may be a number, such as a PIN, and come back as one.
        case int() | float() if field in _any_fields(owner):
            return redactor.data(value)
        case _:
            return value


def _each(values: tuple[Any, ...], redactor: Redactor) -> tuple[Any, ...]:
    """The records of a tuple; one of plain names or numbers stays."""
    new = tuple(masked(item, redactor) if isinstance(item, msgspec.Struct) else item for item in values)
    return values if all(a is b for a, b in zip(values, new, strict=True)) else new


def _texts(owner: type) -> frozenset[str]:
    return _any_fields(owner) | _WRITTEN.get(owner, frozenset())


@lru_cache(maxsize=256)
def _any_fields(owner: type) -> frozenset[str]:
    """The fields that hold whatever a tool gave."""
    return frozenset(field.name for field in msgspec.structs.fields(owner) if field.type is Any)
