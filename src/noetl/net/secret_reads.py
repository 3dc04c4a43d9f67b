"""Secret reads: which keychain entries a task's templates read, and which credentials a net names (KEY-03, VAL-21).

Computed before a task is prepared, so that only the secrets that it reads are fetched, and none for a playbook without
secrets.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError
from noetl.net.net import Net, Transition, tasks_of
from noetl.net.task import Task
from noetl.templates.expression import parse

_ADDRESS = re.compile(r"://|[=@]|\s\S+[:=]")  # no name of a credential has these

KEYCHAIN = "keychain"


class Reads(msgspec.Struct, frozen=True):
    """`everything`: by a name that is computed, or in code, which may read any of them."""

    names: frozenset[str] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.names)


NOTHING = Reads()


def keychain_reads(task: Task) -> Reads:
    """The keychain entries that the task's inputs, spec, arguments and policy read."""
    if KEYCHAIN.encode() not in msgspec.json.encode(task):
        return NOTHING
    if any(KEYCHAIN in text for text in texts_in(task.verbatim)):
        return Reads(everything=True)
    names: set[str] = set()
    for text in texts_in(msgspec.to_builtins(task)):
        if KEYCHAIN not in text or not is_template(text):
            continue
        try:
            reads = [read.path for read in parse(text).references if read.root == KEYCHAIN]
        except TemplateError:
            continue  # it will not be rendered either
        if any(not path or not isinstance(path[0], str) for path in reads):
            return Reads(everything=True)
        names.update(str(path[0]) for path in reads)
    return Reads(frozenset(names))


def auth_names(net: Net) -> tuple[str, ...]:
    """The credentials that tasks name as literals, each once, in the order written (VAL-21)."""
    written = (task.inputs.data for step in net.transitions for task in tasks_of(step))
    named = (credential_name(auth) for inputs in written for auth in auths_in(inputs))
    return tuple(dict.fromkeys(name for name in named if name is not None and not is_template(name)))


def auths_in(inputs: Any) -> Iterator[Any]:
    """Each `auth` of a task's inputs: its own, that of the files of a lake, and those of the two ends of a transfer."""
    if not isinstance(inputs, Mapping):
        return
    if inputs.get("storage_auth") is not None:
        yield inputs["storage_auth"]
    for place in (inputs, inputs.get("source"), inputs.get("target")):
        if place is not None and isinstance(place, Mapping) and place.get("auth") is not None:
            yield place["auth"]


def credential_name(auth: Any) -> str | None:
    """The credential that an `auth` names, `auth: name` or `auth: {credential: name}`. An address, also one such as
    `host=db password=…`, is no name: it must never be looked up or shown as one."""
    name = auth.get("credential") if isinstance(auth, Mapping) else auth
    return name if isinstance(name, str) and name and not _ADDRESS.search(name) else None


def texts_in(data: Any) -> Iterator[str]:
    """Every text in plain data, keys too."""
    pending = [data]
    while pending:
        value = pending.pop()
        match value:
            case str():
                yield value
            case dict():
                pending += [*value, *value.values()]
            case list() | tuple():
                pending += value


# A net's steps by name, so that nothing searches the list of them for every order.

_KEPT = 64
_recent: OrderedDict[int, NetIndex] = OrderedDict()


class NetIndex:
    def __init__(self, net: Net) -> None:
        self.net = net
        self.steps: dict[str, Transition] = {step.name: step for step in net.transitions}
        self.names = frozenset(self.steps)
        self.facts: dict[str, Any] = {}  # data that a worker has computed about a step, by its name


def index_of(net: Net) -> NetIndex:
    """The index of exactly this net (distinguished by identity: comparing two nets would cost more than an index)."""
    found = _recent.get(id(net))
    if found is None or found.net is not net:
        found = _recent[id(net)] = NetIndex(net)
        if len(_recent) > _KEPT:
            _recent.popitem(last=False)
    return found
