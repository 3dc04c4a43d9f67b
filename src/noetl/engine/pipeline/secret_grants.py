"""Secret grants: which secrets may be given to whoever holds an order of a step (reliability.md §2.2, 2.6). Also the
keychain entries of one execution, filled in from its workload.

A name that is a template is what it gives in the scope that was recorded when the order was given out. What the server
cannot know so, since it comes of an earlier task of the same pipeline, is the worker's word alone: then the fixed parts
of the name must fit, and a name without any must be one that the playbook's keychain declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.source import is_template
from noetl.engine.pipeline.secret_names import Lookup, Named, Naming
from noetl.net.net import KeychainEntry
from noetl.net.task import Task
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_STATEMENT = "{%"
_PATH, _AUTH = "path", "auth"  # options of a lookup: the file of a provider, and the credential it is reached with
UNRESOLVED = "keychain.unresolved"


class Known(msgspec.Struct, frozen=True):
    """What a template can give, by what is recorded. Not `is_all`: what else it gives, only the worker can say."""

    values: Iterable[Any] = ()
    is_all: bool = False


NOTHING_KNOWN = Known()
Reading = Callable[[Task, str], Known]


class Grants:
    """`declared` are the entries of the playbook's keychain, `read` says what a template of a task can give."""

    def __init__(self, naming: Naming, declared: Collection[str], read: Reading) -> None:
        self._naming, self._declared, self._read = naming, declared, read

    def allow(self, name: str, kind: str = "", lookup: Mapping[str, Any] | None = None) -> bool:
        if not kind and not lookup and self._is_named(name):
            return True
        return any(self._looks_up(one, name, kind, lookup or {}) for one in self._naming.lookups)

    def _is_named(self, name: str) -> bool:
        return name in self._naming.entries or any(self._names(place, name) for place in self._naming.places)

    def _names(self, place: Named, name: str) -> bool:
        if not _is_template(place.written):
            return name in place.names_in(place.written)
        known = self._read(place.task, place.written)
        if any(name in place.names_in(value) for value in known.values):
            return True
        return not known.is_all and self._may_be(place.written, name, is_free=place.is_end)

    def _looks_up(self, one: Lookup, name: str, kind: str, lookup: Mapping[str, Any]) -> bool:
        is_renewed = one.renews and not kind and not lookup
        return (
            self._gives(one.task, one.name, name)
            and (is_renewed or self._gives(one.task, one.kind, kind, is_name=False))
            and all(self._is_option(one, key, value, name) for key, value in lookup.items())
        )

    def _is_option(self, one: Lookup, key: str, value: Any, name: str) -> bool:
        if key == _PATH:
            return bool(value == name)  # a file is looked up by its own name
        return key in one.options and self._gives(one.task, one.options[key], value, is_name=key == _AUTH)

    def _gives(self, task: Task, written: Any, found: Any, *, is_name: bool = True) -> bool:
        if not _is_template(written):
            return bool(written == found)
        known = self._read(task, written)
        if any(value == found for value in known.values):
            return True
        if known.is_all:
            return False
        if not isinstance(found, str):
            return not is_name and not fixed_parts(written)
        return self._may_be(written, found) if is_name else fits(written, found)

    def _may_be(self, written: str, name: str, *, is_free: bool = False) -> bool:
        """Whether a name that only the worker knows may be this one."""
        if is_free or not fixed_parts(written):
            return name in self._declared
        return fits(written, name)


def _is_template(written: Any) -> bool:
    return isinstance(written, str) and is_template(written)


def fixed_parts(written: str) -> str:
    """What stands there whatever the template gives; of one with statements, that may be nothing."""
    return "" if _STATEMENT in written else "".join(_EXPRESSION.split(written)).strip()


def fits(written: str, found: str) -> bool:
    """Whether a template may give this text, by its fixed parts."""
    if _STATEMENT in written:
        return True
    pattern = ".*".join(re.escape(fixed) for fixed in _EXPRESSION.split(written))
    return re.fullmatch(pattern, found, re.DOTALL) is not None


# Keychain entries of one execution: what a declaration leaves to the workload is filled in (KEY-01, design.md §5).
#
# Rendered when a request is evaluated and whenever an entry is looked up again, with the same workload each time. No
# entry reads another one: none is resolved yet.


def filled_entries(entries: Sequence[KeychainEntry], workload: Mapping[str, Any]) -> tuple[KeychainEntry, ...]:
    """The entries with their templates rendered. ToolError `keychain.unresolved` names the one that cannot be."""
    scope = Scope({"workload": workload})
    return tuple(_filled_entry(entry, scope) if _has_templates(entry.lookup) else entry for entry in entries)


def _filled_entry(entry: KeychainEntry, scope: Scope) -> KeychainEntry:
    try:
        return msgspec.structs.replace(entry, lookup=render(Authored(entry.lookup), scope))
    except TemplateError as problem:
        raise ToolError(UNRESOLVED, f'keychain entry "{entry.name}": {problem.message}', entry=entry.name) from None


def _has_templates(value: Any) -> bool:
    match value:
        case str():
            return is_template(value)
        case dict():
            return any(map(_has_templates, value.values()))
        case list():
            return any(map(_has_templates, value))
        case _:
            return False
