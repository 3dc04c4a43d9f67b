"""Scope: the meaning of a name at one place of one execution (TPL-06), and which reserved names can be read at which
place.

It looks up and does not decide what is visible: the caller gives the namespaces that `visible` lists for the place.
Values are plain data or views; nothing is copied and nothing can be changed through it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from noetl.templates.values import UndefinedNameError
from noetl.templates.views import View

Layer = Mapping[str, Any] | View
_CONTEXT = ("workload", "ctx", "args", "iter", "execution_id")
# Words that cannot name a task, a step or an iterator, nor be written to (VAL-17).
RESERVED = frozenset(
    {
        *("workload", "ctx", "iter", "args", "event", "outcome", "keychain", "token", "vars", "result", "response"),
        *("this", "error", "execution_id"),
    }
)
V10, V2_EVAL, V2_CASE = DIALECTS = ("v10", "v2-eval", "v2-case")


class Scope:
    """Names in the order of TPL-06: namespaces, the iteration's binding, task results, step results, then the fields of
    `args`, `ctx` and `workload`. A reserved word is a namespace or undefined, never such a field (C-26). `loop` is the
    iteration, or the counts of a finished loop; a namespace, variable or result of that name comes first. `known` are
    the names that the playbook can define at some time; with None, any name may be."""

    __slots__ = ("_bare", "_known", "_loop", "_namespaces", "_steps", "_tasks")

    def __init__(
        self,
        namespaces: Mapping[str, Any],
        *,
        iteration: Layer | None = None,
        tasks: Layer | None = None,
        steps: Layer | None = None,
        loop: Layer | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        self._loop = loop
        self._known = known
        self._namespaces = namespaces
        self._steps, self._tasks = steps, tasks
        given = namespaces.get
        # The order of TPL-06: the nearest first.
        layers = (iteration, tasks, steps, given("args"), given("ctx"), given("workload"))
        self._bare = [layer for layer in layers if layer is not None]

    def lookup(self, name: str) -> Any:
        """The value of a bare name. KeyError if it has no value here, UndefinedNameError if the playbook never defines
        it."""
        if name in self._namespaces:
            return self._namespaces[name]
        # Before the layers: a key of `ctx` or `workload` that is called `event` must not pass for the event (C-26).
        if is_reserved(name):
            return self._step_called(name)
        if name == "loop_index" and "iter" in self._namespaces:
            return _field(self._namespaces["iter"], "index")  # the older spelling (design.md §5)
        for layer in self._bare:
            # Compared by exact class: this is the common case, and it saves an exception for a name that another layer
            # has.
            if type(layer) is dict:
                if name in layer:
                    return layer[name]
                continue
            try:
                return _field(layer, name)
            except KeyError:
                continue
        if name == "loop" and self._loop is not None:
            return self._loop
        raise self._undefined(name)

    def context(self) -> dict[str, Any]:
        """All that code may read without a template, as plain data: namespaces and results by name (O-11)."""
        layers = [layer for layer in (self._steps, self._tasks) if isinstance(layer, Mapping)]
        results = {name: _plain_data(layer[name]) for layer in layers for name in layer}
        return {name: _plain_data(self._namespaces.get(name)) for name in _CONTEXT} | {"results": results}

    def _undefined(self, name: str) -> KeyError:
        if self._known is None or name in self._known:
            return KeyError(name)
        return UndefinedNameError(name, self._known, self._namespaces)

    def _step_called(self, name: str) -> Any:
        """The result of a step whose name is a reserved word elsewhere (VAL-17)."""
        try:
            if self._steps is not None and not name.startswith("_"):
                return _field(self._steps, name)
        except KeyError:
            pass
        raise self._undefined(name)


def loop_of(iteration: Mapping[str, Any], iterator: str) -> dict[str, Any]:
    """`loop` inside an iteration: its names, the element as `item`, and the position in Jinja2's other words."""
    index = iteration["index"]
    return {"item": iteration[iterator], **iteration, "index0": index, "index1": index + 1, "first": index == 0}


def _plain_data(value: Any) -> Any:
    return value.value() if hasattr(value, "lookup") else value


def _field(layer: Any, name: str) -> Any:
    if isinstance(layer, Mapping):
        return layer[name]
    lookup = getattr(layer, "lookup", None)
    if lookup is None:  # `args` or `ctx` is not a mapping
        raise KeyError(name)
    return lookup(name)


# Scopes: which reserved names a template can read at which place, in which dialect. The one table of it (TPL-05).
#
# Beside these, every place reads step results by name and the bare names of TPL-06; places inside a step's pipeline
# also read the results of that step's tasks, and places that see `iter` the bare iterator and `loop_index`.


def is_reserved(name: str) -> bool:
    """Whether `name` is a reserved word; all names that begin with an underscore are reserved."""
    return name in RESERVED or name.startswith("_")


class TemplateSite(StrEnum):
    """A kind of place where an author may write a template."""

    KEYCHAIN = "keychain"  # entries of the root `keychain`, except their name and kind
    INITIAL_CTX = "initial_ctx"  # the root `ctx`
    ADMISSION = "admission"  # admit rules, step `when` of v2-eval
    STEP_ARGS = "step_args"  # step-level `args`
    LOOP_ARGS = "loop_args"  # step-level `args` of a looped step
    LOOP_IN = "loop_in"  # the outermost `loop.in`
    NESTED_LOOP_IN = "nested_loop_in"
    TASK_INPUT = "task_input"  # inputs and `spec` of tasks, `before` hooks
    TASK_POLICY = "task_policy"  # rules, what they write and how they retry, `after` and `finally` hooks
    SET_CTX_STEP = "set_ctx_step"  # step-level `set_ctx`
    ARC = "arc"  # guards, args and options of arcs and of `next`
    WAIT = "wait"  # timer, message, signal, human_task
    TIMEOUT = "timeout"  # the `timeout` block and lifecycle limits
    HANDLER = "handler"  # `when` of on_event handlers
    HANDLER_TASK = "handler_task"  # tasks of on_event handlers
    EMIT = "emit"  # policy.emit.events
    COMPENSATE = "compensate"
    NOTICE = "notice"  # subject and text of the root `on`
    CASE_WHEN = "case_when"  # v2-case only, as are the following
    CASE_THEN = "case_then"
    RETRY = "retry"  # conditions and next_call of `retry`; in the other dialects the same as task_policy
    SINK = "sink"
    VARS = "vars"


_CORE = frozenset({"args", "ctx", "workload", "execution_id"})
_SERVER = _CORE | {"event", "token"}
_PIPELINE = _CORE | {"iter", "keychain", "token", "_task", "_attempt"}
_CALL = _CORE | {"iter", "token", "_task", "_attempt", "event", "response"}
_COMMON: dict[TemplateSite, frozenset[str]] = {
    TemplateSite.INITIAL_CTX: frozenset({"workload", "execution_id"}),
    TemplateSite.ADMISSION: _SERVER,
    TemplateSite.STEP_ARGS: _SERVER,
    TemplateSite.LOOP_ARGS: _SERVER | {"iter"},
    TemplateSite.LOOP_IN: _SERVER,
    TemplateSite.NESTED_LOOP_IN: _SERVER | {"iter"},
    TemplateSite.SET_CTX_STEP: _SERVER,
    TemplateSite.WAIT: _SERVER,
    TemplateSite.TIMEOUT: _SERVER,
    TemplateSite.HANDLER: _SERVER,
    TemplateSite.EMIT: _SERVER,
    TemplateSite.NOTICE: frozenset({"notice", "execution", "error", "task"}),
}
_V10: dict[TemplateSite, frozenset[str]] = {
    **_COMMON,
    TemplateSite.KEYCHAIN: frozenset({"workload"}),  # evaluated with the request, before anything has happened
    TemplateSite.TASK_INPUT: _PIPELINE | {"_prev"},
    TemplateSite.TASK_POLICY: _PIPELINE | {"_prev", "outcome"},
    TemplateSite.RETRY: _PIPELINE | {"_prev", "outcome"},
    TemplateSite.ARC: _CORE | {"event"},
    TemplateSite.HANDLER_TASK: _PIPELINE | {"_prev", "event"},
    TemplateSite.COMPENSATE: _PIPELINE | {"_prev", "result"},
}
_STEP_RUN_SITES = frozenset(
    {TemplateSite.TASK_INPUT, TemplateSite.TASK_POLICY, TemplateSite.RETRY, TemplateSite.SET_CTX_STEP, TemplateSite.ARC}
)
_V2_EVAL = {site: names | {"vars"} if site in _STEP_RUN_SITES else names for site, names in _V10.items()}
_V2_CASE = {
    site: names | {"vars"}  # the same store as ctx (V2C-21)
    for site, names in {
        **_COMMON,
        TemplateSite.TASK_INPUT: _PIPELINE,
        TemplateSite.TASK_POLICY: _PIPELINE,
        TemplateSite.ARC: _CORE | {"event", "response", "result", "this"},
        TemplateSite.HANDLER_TASK: _PIPELINE | {"event"},
        TemplateSite.COMPENSATE: _PIPELINE | {"result", "this"},
        TemplateSite.CASE_WHEN: _CALL | {"result", "this"},
        TemplateSite.CASE_THEN: _CALL | {"result", "this", "keychain"},
        TemplateSite.RETRY: _CALL | {"result", "this", "status_code", "error", "_retry", "keychain"},
        TemplateSite.SINK: _CALL | {"result", "this", "page", "_retry", "keychain"},
        TemplateSite.VARS: _CORE | {"event", "response", "result", "this"},
    }.items()
}
_TABLE: dict[str, dict[TemplateSite, frozenset[str]]] = {V10: _V10, V2_EVAL: _V2_EVAL, V2_CASE: _V2_CASE}
_OUTCOME_NAMES = {
    "response": "outcome.result",
    "result": "outcome.result, or a task's or step's name with .data",
    "this": "outcome",
    "error": "outcome.error",
    "status_code": "outcome.http.status",
    "_retry": "_attempt",
}
_EVENT_NAMES = {
    "response": "STEP.result, with the name of the step",
    "result": "event.result",
    "this": "event",
    "error": "event.error",
}
_CASE_NAMES = {
    "_retry": "_attempt",
    "outcome": "response in when, this in then",
    "_prev": "result, or a task's name with .result",
}
_CONDITION_NAMES = {"_prev": "response", "error": "response.error", "status_code": "response.status_code"}
_ACTION_NAMES = {"error": "response.error", "status_code": "response.status_code"}
_ACTIONS = frozenset({TemplateSite.CASE_THEN, TemplateSite.SINK, TemplateSite.ARC, TemplateSite.VARS})
# Places with a further name: elsewhere a step may have that name.
_NARROW = frozenset(
    {
        TemplateSite.RETRY,
        TemplateSite.COMPENSATE,
        TemplateSite.SINK,
        TemplateSite.CASE_WHEN,
        TemplateSite.CASE_THEN,
        TemplateSite.VARS,
        TemplateSite.HANDLER_TASK,
        TemplateSite.NOTICE,
    }
)


def reserved_names(dialect: str) -> frozenset[str]:
    """Words that cannot name a step in this dialect: those that its templates read nearly everywhere (VAL-17)."""
    return frozenset().union(*(names for site, names in _TABLE[dialect].items() if site not in _NARROW))


def visible(site: TemplateSite, dialect: str) -> frozenset[str]:
    """The reserved names that can be read at `site`; none where the dialect has no such place."""
    return _TABLE[dialect].get(site, frozenset())


def foreign(name: str, dialect: str, site: TemplateSite | None = None) -> str | None:
    """The replacement of `name` if it belongs to another dialect (C-26); None if it does not, or is visible at
    `site` nevertheless."""
    if site is not None and name in visible(site, dialect):
        return None
    if dialect == V2_CASE:
        replacements = _CONDITION_NAMES if site is TemplateSite.CASE_WHEN else _ACTION_NAMES if site in _ACTIONS else {}
        return replacements.get(name) or _CASE_NAMES.get(name)
    if name == "vars":
        return "ctx" if dialect == V10 else None
    routing = site in (TemplateSite.ARC, TemplateSite.SET_CTX_STEP, TemplateSite.EMIT, TemplateSite.HANDLER)
    return _EVENT_NAMES.get(name) or _OUTCOME_NAMES.get(name) if routing else _OUTCOME_NAMES.get(name)


class Row(msgspec.Struct, frozen=True):
    """One cell of the table, for the documentation."""

    site: TemplateSite
    dialect: str
    names: tuple[str, ...]


def table() -> tuple[Row, ...]:
    """The whole table, by site and dialect; places a dialect does not have are left out."""
    return tuple(
        Row(site, dialect, tuple(sorted(_TABLE[dialect][site])))
        for site in TemplateSite
        for dialect in DIALECTS
        if site in _TABLE[dialect]
    )
