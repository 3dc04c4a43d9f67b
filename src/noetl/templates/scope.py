"""Scope: what a name means at one place of one execution (TPL-06).

It looks up and does not decide what is visible: the caller gives the namespaces that `scopes.visible` lists for the
place. Values are plain data or views; nothing is copied and nothing can be changed through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.templates.scopes import is_reserved
from noetl.templates.views import View

Layer = Mapping[str, Any] | View


class Scope:
    """Names in the order of TPL-06: namespaces, the iteration's binding, task results, step results, then the fields
    of `args`, `ctx` and `workload`. A reserved word is a namespace or undefined, never such a field (C-26). `loop`, the
    iteration or what a loop came to, is read under that name where nothing else has it."""

    __slots__ = ("_bare", "_loop", "_namespaces", "_steps")

    def __init__(
        self,
        namespaces: Mapping[str, Any],
        *,
        iteration: Layer | None = None,
        tasks: Layer | None = None,
        steps: Layer | None = None,
        loop: Layer | None = None,
    ) -> None:
        self._loop = loop
        self._namespaces = namespaces
        fields = (namespaces.get(name) for name in ("args", "ctx", "workload"))
        self._steps = steps
        self._bare = [layer for layer in (iteration, tasks, steps, *fields) if layer is not None]

    def lookup(self, name: str) -> Any:
        """The value of a bare name. KeyError when nothing gives it one."""
        if name in self._namespaces:
            return self._namespaces[name]
        if is_reserved(name):
            return self._step_called(name)
        if name == "loop_index" and "iter" in self._namespaces:
            return _field(self._namespaces["iter"], "index")  # the older spelling (DESIGN §5)
        for layer in self._bare:
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
        raise KeyError(name)

    def _step_called(self, name: str) -> Any:
        """The result of a step whose name is a reserved word elsewhere (VAL-17)."""
        if self._steps is None or name.startswith("_"):
            raise KeyError(name)
        return _field(self._steps, name)


def loop_of(iteration: Mapping[str, Any], iterator: str) -> dict[str, Any]:
    """`loop` inside an iteration: its names, the element as `item`, and the position in Jinja2's other words."""
    index = iteration["index"]
    return {"item": iteration[iterator], **iteration, "index0": index, "index1": index + 1, "first": index == 0}


def _field(layer: Any, name: str) -> Any:
    if isinstance(layer, Mapping):
        return layer[name]
    lookup = getattr(layer, "lookup", None)
    if lookup is None:  # args or ctx given as something without fields
        raise KeyError(name)
    return lookup(name)
