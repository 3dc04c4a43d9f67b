"""Secret names: the places of a step's tasks that name a secret, as they are written (reliability.md §2.2, 2.6).

Tasks of built-in kinds name credentials in `auth` and nowhere else. A plug-in's kind may say which of its inputs name
some; one that says nothing names them under `auth`, `credential` or `credentials`, however deep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.source import is_template
from noetl.net.net import ENDS, Net, Transition, tasks_of
from noetl.net.secret_reads import auths_in, credential_name, keychain_reads
from noetl.net.task import Repeat, Task

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
        """The names in what stands there, once it is rendered."""
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
        """Whatever of it is known only once it is rendered."""
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
        yield from (Named(task, text) for text in _under(inputs, KEYS))


def _name(auth: Any) -> Any:
    return auth.get("credential") if isinstance(auth, Mapping) else auth


def _under(value: Any, keys: Collection[str]) -> Iterator[str]:
    """The texts under these keys; a mapping there may be a credential itself, unless it is one of several."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in keys and (key == KEYS[-1] or not isinstance(one, Mapping)):
                yield from _texts(one)
            else:
                yield from _under(one, keys)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _under(one, keys)


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
