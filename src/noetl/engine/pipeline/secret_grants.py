"""Secret grants: which secrets the holder of an order of a step may receive (reliability.md §2.2, 2.6). Also the
keychain entries of one execution, filled in from its workload. Also the names of secrets that templates read.

A template is evaluated in the scope that was recorded when the order was claimed. A part that comes from an earlier
task of the same pipeline is known to the worker only: then the fixed parts of the name must match, and a name without
fixed parts must be declared in the playbook's keychain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError, ToolError
from noetl.net.net import KeychainEntry, Net, Transition, tasks_of
from noetl.net.secret_reads import auths_in, credential_name, keychain_reads
from noetl.net.task import ENDS, Repeat, Task
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

# Secret names: the places of a step's tasks that name a secret, as they are written (reliability.md §2.2, 2.6).
#
# Tasks of built-in kinds name credentials in `auth` and nowhere else. A plug-in's kind may say which of its inputs name
# some; one that says nothing names them under `auth`, `credential` or `credentials`, however deep.


SECRETS = "secrets"
KEYS = ("auth", "credential", "credentials")
_OPTIONS = ("version", "auth")
# The inputs of a kind that name credentials; none where it does not say, None for a built-in kind.
CredentialInputs = Callable[[str], tuple[str, ...] | None]


class Named(msgspec.Struct, frozen=True):
    """One place. `is_end`: it gives a whole end of a transfer, of which `auth` is a part."""

    task: Task
    written: Any
    is_end: bool = False

    def names_in(self, value: Any) -> Iterator[str]:
        """The names in a rendered value."""
        if self.is_end:
            value = value.get("auth") if isinstance(value, Mapping) else None
        for one in value if isinstance(value, list | tuple) else (value,):
            if (name := credential_name(one)) is not None:
                yield name


class Lookup(msgspec.Struct, frozen=True):
    """A `secrets` task: the name, the provider and the options that it writes, each of them perhaps a template."""

    task: Task
    name: Any
    kind: Any = ""
    options: dict[str, Any] = {}
    renews: bool = False


class Naming(msgspec.Struct, frozen=True):
    """`entries` are those of the keychain that the step's templates and code read."""

    entries: frozenset[str] = frozenset()
    places: tuple[Named, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def templates(self) -> Iterator[tuple[Task, str]]:
        """The parts that are known only after rendering."""
        texts = [(place.task, place.written) for place in self.places]
        for one in self.lookups:
            texts += [(one.task, text) for text in (one.name, one.kind, *one.options.values())]
        yield from ((task, text) for task, text in texts if isinstance(text, str) and is_template(text))


def naming_of(step: Transition, net: Net, inputs_of: CredentialInputs) -> Naming:
    entries: set[str] = set()
    places: list[Named] = []
    lookups: list[Lookup] = []
    for task in tasks_of(step):
        reads = keychain_reads(task)
        entries.update(entry.name for entry in net.keychain if reads.everything or entry.name in reads.names)
        places += _places(task, inputs_of(task.kind))
        if task.kind == SECRETS:
            lookups.append(_lookup(task))
    places += _of_next_calls(step)
    return Naming(frozenset(entries), tuple(places), tuple(lookups))


def _places(task: Task, declared: tuple[str, ...] | None) -> Iterator[Named]:
    inputs = task.inputs.data
    if not isinstance(inputs, Mapping):
        return
    if declared is None:
        yield from (Named(task, _name(auth)) for auth in auths_in(inputs))
        ends = (inputs.get(end) for end in ENDS)
        yield from (Named(task, end, is_end=True) for end in ends if isinstance(end, str) and is_template(end))
    elif declared:
        written = (inputs[key] for key in declared if inputs.get(key) is not None)
        yield from (Named(task, text) for value in written for text in _texts(value))
    else:
        yield from (Named(task, text) for text in _texts_under(inputs, KEYS))


def _name(auth: Any) -> Any:
    return auth.get("credential") if isinstance(auth, Mapping) else auth


def _texts_under(value: Any, keys: Collection[str]) -> Iterator[str]:
    """The texts under these keys; a mapping there may be a credential itself, unless it is one of several."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in keys and (key == KEYS[-1] or not isinstance(one, Mapping)):
                yield from _texts(one)
            else:
                yield from _texts_under(one, keys)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_under(one, keys)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list() | tuple():
            for one in value:
                yield from _texts(one)


def _of_next_calls(step: Transition) -> Iterator[Named]:
    """The next call of a v2-case retry may be made with another credential (V2C-17)."""
    for task in step.tasks:
        rules = step.case.rules if step.case is not None else ()
        policies: list[Repeat] = [*task.repeat, *(policy for rule in rules for policy in rule.repeat)]
        for policy in policies:
            if policy.next_call is not None:
                yield from (Named(task, _name(auth)) for auth in auths_in(policy.next_call.data))


def _lookup(task: Task) -> Lookup:
    inputs = task.inputs.data if isinstance(task.inputs.data, Mapping) else {}
    options = {key: inputs[key] for key in _OPTIONS if inputs.get(key) is not None}
    op = inputs.get("op") or "get"
    renews = op == "refresh" or (isinstance(op, str) and is_template(op))
    return Lookup(task, inputs.get("secret"), inputs.get("provider") or "", options, renews)


_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_STATEMENT = "{%"
_PATH, _AUTH = "path", "auth"  # options of a lookup: the file of a provider, and the credential it is reached with
UNRESOLVED = "keychain.unresolved"


class Known(msgspec.Struct, frozen=True):
    """The values that a template can return, by the recorded data. Not `is_all`: only the worker knows the others."""

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
    """The fixed text around templates; possibly empty for a template with statements."""
    return "" if _STATEMENT in written else "".join(_EXPRESSION.split(written)).strip()


def fits(written: str, found: str) -> bool:
    """Whether a template may give this text, by its fixed parts."""
    if _STATEMENT in written:
        return True
    first, *others = _EXPRESSION.split(written)
    if not others:
        return found == first
    *between, last = others
    # By searches from the left, each part at its first place, and not by a regular expression: that tries every place
    # for every part, and the text comes from a worker.
    at, end = len(first), len(found) - len(last)
    if at > end or not (found.startswith(first) and found.endswith(last)):
        return False
    for fixed in between:
        place = found.find(fixed, at, end)
        if place < 0:
            return False
        at = place + len(fixed)
    return True


# Keychain entries of one execution: references of a declaration to the workload are filled in (KEY-01, design.md §5).
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
