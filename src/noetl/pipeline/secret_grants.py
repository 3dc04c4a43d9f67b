"""Secret grants: which secrets the tasks of a step name, and so may be given to whoever holds an order of it
(RELIABILITY 2.6). A name that is a template is known when the task runs only; its fixed parts must fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.net.net import Net, Transition
from noetl.net.task import Task
from noetl.net.tasks import tasks_of
from noetl.pipeline.secret_reads import auths_in, keychain_reads, texts_in
from noetl.source import is_template

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_ENDS = ("source", "target")


class _Lookup(msgspec.Struct, frozen=True):
    """A `secrets` task: the name, the provider and the options that it writes, each of them perhaps a template."""

    name: Any
    kind: Any = ""
    options: dict[str, Any] = {}


class Grants(msgspec.Struct, frozen=True):
    """`names` as they are written. `lookups` are of tasks that look up a secret themselves."""

    names: tuple[str, ...] = ()
    lookups: tuple[_Lookup, ...] = ()

    def allow(self, name: str, kind: str, lookup: Mapping[str, Any]) -> bool:
        if not kind and not lookup and any(_fits(written, name) for written in self.names):
            return True
        return any(_fits(one.name, name) and _fits(one.kind, kind) and _are(one, lookup) for one in self.lookups)


def grants_of(step: Transition, net: Net) -> Grants:
    names: list[str] = []
    lookups: list[_Lookup] = []
    for task in tasks_of(step):
        reads = keychain_reads(task)
        names += [entry.name for entry in net.keychain if reads.everything or entry.name in reads.names]
        names += _auths(task)
        names += [text for text in texts_in(task.inputs.data) if not is_template(text)]  # a plug-in's own inputs
        if task.kind == "secrets":
            lookups += _lookups(task)
    return Grants(tuple(dict.fromkeys(names)), tuple(lookups))


def _auths(task: Task) -> Iterator[str]:
    """What the inputs name, or would once they are rendered."""
    inputs = task.inputs.data
    if isinstance(inputs, str):
        yield inputs  # one template gives all of them
        return
    for auth in auths_in(inputs):
        name = auth.get("credential") if isinstance(auth, Mapping) else auth
        if isinstance(name, str):
            yield name
    for end in _ENDS if isinstance(inputs, Mapping) else ():
        if isinstance(inputs.get(end), str) and is_template(inputs[end]):
            yield inputs[end]


def _lookups(task: Task) -> Iterator[_Lookup]:
    inputs = task.inputs.data
    if isinstance(inputs, str):
        yield _Lookup(inputs, inputs, {"version": inputs, "auth": inputs, "path": inputs})
    elif isinstance(inputs, Mapping):
        options = {key: inputs[key] for key in ("version", "auth") if inputs.get(key) is not None}
        yield _Lookup(inputs.get("secret"), inputs.get("provider") or "", {**options, "path": inputs.get("secret")})


def _are(one: _Lookup, lookup: Mapping[str, Any]) -> bool:
    return all(key in one.options and _fits(one.options[key], value) for key, value in lookup.items())


def _fits(written: Any, found: Any) -> bool:
    """Whether this may be what is written, once it is rendered."""
    if not isinstance(written, str) or not is_template(written):
        return bool(written == found)
    if not isinstance(found, str):
        return _TEMPLATE.fullmatch(written.strip()) is not None
    pattern = ".*".join(re.escape(fixed) for fixed in _TEMPLATE.split(written))
    return re.fullmatch(pattern, found, re.DOTALL) is not None
