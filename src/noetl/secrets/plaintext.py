"""Kinds that read a value where it lies: `env`, `file` and `static` (KEY-07)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import RefusedError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved, word


class EnvResolver:
    """`var` names the process variable; without it the entry's own name does, as it is or in capitals. With `map`
    each field has a variable of its own."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        mapped = entry.lookup.get("map")
        if isinstance(mapped, dict) and mapped:
            return Material(fields={name: variable(entry, sources, str(var)) for name, var in mapped.items()})
        named = word(entry, "var", "variable", "env", "key")
        if named is None:
            named = entry.name if entry.name in sources.environment else entry.name.upper()
        return Material(fields=_fields(variable(entry, sources, named), as_json=entry.lookup.get("format") == "json"))


class FileResolver:
    """`path` names the file. A JSON object gives fields, anything else is one text without its last line break."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        path = word(entry, "path", "file")
        if path is None:
            raise unresolved(entry, "it names no file: add path")
        return Material(fields=file_fields(entry, sources, path))


class StaticResolver:
    """`value` as it stands in the playbook: for tests, since a playbook is no place for a secret."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        value = entry.lookup.get("value", entry.lookup.get("values"))
        if value is None:
            raise unresolved(entry, "it has no value")
        return Material(fields=dict(value) if isinstance(value, dict) else {VALUE: value})


def variable(entry: KeychainEntry, sources: Sources, name: str) -> str:
    value = sources.environment.get(name)
    if not value:
        why = (
            ""
            if sources.sees_environment
            else "; on a server its operator names those that are read (secret_variables)"
        )
        raise unresolved(entry, f"the environment has no variable {name}{why}")
    return value


def file_fields(entry: KeychainEntry, sources: Sources, path: str) -> dict[str, Any]:
    try:
        text = sources.read_file(path)
    except (OSError, UnicodeDecodeError, RefusedError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise unresolved(entry, f"the file {path} cannot be read: {why}") from None
    if not text.strip():
        raise unresolved(entry, f"the file {path} is empty")
    return _fields(text, as_json=entry.lookup.get("format", "json") == "json")


def _fields(text: str, *, as_json: bool) -> dict[str, Any]:
    text = text.removesuffix("\n").removesuffix("\r")
    if as_json and text.lstrip().startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            return value
    return {VALUE: text}
