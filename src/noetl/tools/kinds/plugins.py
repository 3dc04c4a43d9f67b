"""Kinds of installed plug-ins: entry points of the group `noetl.tools`, each named for its kind (VAL-04).

An entry point's object may carry `kind: ToolKind`, which makes its inputs checkable; without one, any key is passed
on. A plug-in that cannot be imported is no reason to fail a check: its kind says what went wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from noetl.net.kinds import ToolKind

GROUP = "noetl.tools"


class OpenKinds(Mapping[str, ToolKind]):
    """Built-in kinds, then plug-ins', which are looked for on the first name that is not built in."""

    def __init__(self, built_in: Mapping[str, ToolKind]) -> None:
        self._built_in = built_in

    @cached_property
    def _all(self) -> dict[str, ToolKind]:
        return {**plugin_kinds(), **self._built_in}

    def __getitem__(self, name: str) -> ToolKind:
        return self._built_in[name] if name in self._built_in else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def plugin_kinds() -> dict[str, ToolKind]:
    """Every plug-in's kind by name."""
    from importlib.metadata import entry_points

    found = {}
    for entry in entry_points(group=GROUP):
        try:
            kind = getattr(entry.load(), "kind", None)
        except Exception as error:  # whatever a stranger's module raises on import
            broken = f"{entry.value} in working order (importing it fails here: {error})"
            found[entry.name] = ToolKind(name=entry.name, plugin=broken, open_inputs=True)
            continue
        found[entry.name] = kind if isinstance(kind, ToolKind) else ToolKind(name=entry.name, open_inputs=True)
    return found
