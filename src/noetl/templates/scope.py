"""Scope: what a name means at one place of one execution (TPL-06).

It looks up and does not decide what is visible: the caller gives the namespaces that `scopes.visible` lists for the
place. Values are plain data or views; nothing is copied and nothing can be changed through it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from noetl.templates.scopes import is_reserved
from noetl.templates.undefined import UndefinedNameError
from noetl.templates.views import View

Layer = Mapping[str, Any] | View
_CONTEXT = ("workload", "ctx", "args", "iter", "execution_id")


class Scope:
    """Names in the order of TPL-06: namespaces, the iteration's binding, task results, step results, then the fields
    of `args`, `ctx` and `workload`. A reserved word is a namespace or undefined, never such a field (C-26). `loop`, the
    iteration or what a loop came to, is read under that name where nothing else has it. `known` are the names that the
    playbook can define at some time; with None, any name may be."""

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
        """The value of a bare name. KeyError when nothing gives it one, UndefinedNameError when nothing ever can."""
        if name in self._namespaces:
            return self._namespaces[name]
        if is_reserved(name):
            return self._step_called(name)
        if name == "loop_index" and "iter" in self._namespaces:
            return _field(self._namespaces["iter"], "index")  # the older spelling (design.md §5)
        for layer in self._bare:
            # The exact class: the common case, without the price of an exception for a name that another layer has.
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
        results = {name: _plain(layer[name]) for layer in layers for name in layer}
        return {name: _plain(self._namespaces.get(name)) for name in _CONTEXT} | {"results": results}

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


def _plain(value: Any) -> Any:
    return value.value() if hasattr(value, "lookup") else value


def _field(layer: Any, name: str) -> Any:
    if isinstance(layer, Mapping):
        return layer[name]
    lookup = getattr(layer, "lookup", None)
    if lookup is None:  # args or ctx given as something without fields
        raise KeyError(name)
    return lookup(name)
