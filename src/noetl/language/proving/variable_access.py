"""Reads and writes of authored values: which names templates read, which keys a mapping sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError
from noetl.net.net import Loop, Transition
from noetl.net.task import Mutations, Task
from noetl.templates.expression import parse
from noetl.templates.logic import GuardReference
from noetl.templates.values import Authored


def references(*values: Authored | None) -> tuple[GuardReference, ...]:
    """Every name read by the templates in `values`, keys of mappings included."""
    found: dict[GuardReference, None] = {}
    for value in values:
        if value is not None:
            for text in _texts(value.data):
                found |= dict.fromkeys(_read(text))
    return tuple(found)


def tells_time(*values: Authored | None) -> bool:
    """Whether a template asks for the time, which changes by itself."""
    return any("now(" in text for value in values if value is not None for text in _texts(value.data))


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        if is_template(data):
            yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)


def _read(text: str) -> tuple[GuardReference, ...]:
    try:
        return parse(text).references
    except TemplateError:
        # The compiler has already reported this template.
        return ()


class ReadKeys(msgspec.Struct, frozen=True):
    """Top-level keys that are written."""

    names: frozenset[str] = frozenset()
    # Some keys are computed, so any key may be meant.
    unknown: bool = False

    def __or__(self, other: ReadKeys) -> ReadKeys:
        return ReadKeys(self.names | other.names, self.unknown or other.unknown)

    def __contains__(self, name: object) -> bool:
        return self.unknown or name in self.names


def keys(*values: Authored | None) -> ReadKeys:
    """The keys that mappings set; `a.b` sets (part of) `a` (SCOPE-04)."""
    found = ReadKeys()
    for value in values:
        if value is None or value.data is None:
            continue
        if not isinstance(value.data, dict):
            found |= ReadKeys(unknown=True)
            continue
        for key in value.data:
            found |= (
                ReadKeys(unknown=True) if is_template(str(key)) else ReadKeys(frozenset({str(key).split(".", 1)[0]}))
            )
    return found


# Writes: which `ctx`, `vars` and `iter` keys the parts of a step set (POL-10, POL-11, V2C-09, V2C-21).


def task_ctx(task: Task) -> ReadKeys:
    """Shared keys that the rules of a task set; older dialects' `vars` are the same store (C-05)."""
    return keys(*(written for one in _mutations(task) for written in (one.set_ctx, one.set_vars, one.set_shared)))


def task_iter(task: Task) -> ReadKeys:
    return keys(*(one.set_iter for one in _mutations(task)))


def _mutations(task: Task) -> Iterable[Mutations]:
    return [rule.mutations for rule in (task.policy.rules if task.policy else ()) if rule.mutations is not None]


def ending_ctx(step: Transition) -> ReadKeys:
    """Keys set when the run ends: the step's set_ctx or vars, its arcs, its case rules, and what its loop folds."""
    found = keys(step.set_ctx, *(arc.set_ctx for arc in (step.router.arcs if step.router else ())))
    for rule in step.case.rules if step.case else ():
        for action in rule.actions:
            found |= keys(action.set_ctx)
            if action.task is not None:
                found |= task_ctx(action.task)
    loop: Loop | None = step.loop
    while loop is not None:
        found |= ReadKeys(frozenset(loop.reducers))
        loop = loop.inner
    for repeat in (r for task in step.tasks for r in task.repeat):
        if repeat.collect is not None:
            found |= ReadKeys(frozenset({repeat.collect.into}))
    return found


def beside_ctx(step: Transition) -> ReadKeys:
    """Keys that handlers and compensations may set at any time."""
    found = ReadKeys()
    for handler in step.handlers.handlers if step.handlers else ():
        for task in handler.tasks:
            found |= task_ctx(task)
    for task in step.compensation.tasks if step.compensation else ():
        found |= task_ctx(task)
    return found


def step_ctx(step: Transition) -> ReadKeys:
    """Everything a run of the step may set."""
    found = ending_ctx(step) | beside_ctx(step)
    for task in step.tasks:
        found |= task_ctx(task)
    return found


# The names that a round of a cycle can change, and so whether the value of a guard can change.

# Names that hold the result of the last call or step.
_RESULTS = frozenset({"outcome", "response", "result", "this", "error", "_prev", "page", "status_code"})
# Names whose value does not change during an execution or an iteration.
_STILL = frozenset({"workload", "execution_id", "keychain", "token"})


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """Keys set in the cycle, by namespace, and the names of its steps or tasks, whose results are new each round."""

    ctx: ReadKeys = ReadKeys()
    iteration: ReadKeys = ReadKeys()
    args: ReadKeys = ReadKeys()
    results: frozenset[str] = frozenset()
    workload: frozenset[str] = frozenset()

    def reason(self, guard: Authored | None) -> str | None:
        """Why the value of `guard` may change from round to round; None when nothing it reads does."""
        if tells_time(guard):
            return "depends on the time"
        reasons = (self._of(read.root, read.path) for read in references(guard))
        return next((reason for reason in reasons if reason), None)

    def first_reason(self, guards: Iterable[Authored | None]) -> str | None:
        return next((reason for reason in map(self.reason, guards) if reason), None)

    def _of(self, root: str, path: tuple[str | int, ...]) -> str | None:
        key = str(path[0]) if path else ""
        if root in _STILL:
            return None
        if root in _RESULTS or (root == "event" and key != "name") or root in self.results:
            return f"depends on results ({'.'.join(str(part) for part in (root, *path))})"
        if root in ("_attempt", "_retry"):
            return "attempts are counted"
        namespaces = {"ctx": self.ctx, "vars": self.ctx, "iter": self.iteration, "args": self.args}
        if root in namespaces:
            return self._changed(root, key, namespaces[root])
        if root == "event" or root in self.workload:
            return None
        for namespace, written in (("args", self.args), ("ctx", self.ctx)):  # bare names (TPL-06)
            if root in written:
                return self._changed(namespace, root, written)
        return None

    def _changed(self, namespace: str, key: str, written: ReadKeys) -> str | None:
        moves = key in written or (not key and bool(written.names))
        return f"{namespace}.{key} changes in the cycle" if moves else None
