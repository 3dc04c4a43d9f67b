"""The table of tool kinds: the inputs of each kind as data, for the checker, the editor's schema and the docs.

No module here imports a driver or knows how a kind runs; `tools/registry.py` does. Plug-ins are looked up only for a
name that is not built in, since the search for installed packages costs more than the check of a small file. They are
entry points of the group `noetl.tools`, each named for its kind (VAL-04). The object of an entry point may have the
attribute `kind: ToolKind`, which makes its inputs checkable; without it, any key is passed on. A plug-in that cannot be
imported does not fail a check: its kind carries the reason.

Read first: a small family such as `data_frameworks.py`, then `_GROUPS` below, the order of docs and completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from noetl.net.kinds import COMMON_SPEC, ToolKind
from noetl.tools.kinds import brokers, code, data_frameworks, files, people_and_machines, sql, storage, web
from noetl.tools.quantum import kind as quantum

__all__ = ["COMMON_SPEC", "GROUP", "KINDS", "group_of", "load_kinds"]

# What people do with each kind: groups and kinds in the order of docs, completion and the form of a step. Common ones
# come first, relatives stand side by side.
_GROUPS = {
    "HTTP and APIs": "http",
    "Code and programs": "python shell script container ssh",
    "Databases": "postgres sql duckdb snowflake redis",
    "Lakes and tables": "ducklake iceberg delta",
    "Files and storage": "storage gcs sftp artifact convert archive pgp",
    "Moving and modelling data": "transfer dlt dbt",
    "Messaging": "nats kafka amqp mqtt",
    "Mail and chat": "email slack teams",
    "Flow": "noop log playbook workbook secrets",
    "AI": "llm mcp",
    "Clusters and quantum computers": "dask ray quantum",
}
PLUG_INS = "Plug-ins"
_FAMILIES = (web, sql, code, storage, files, brokers, people_and_machines, data_frameworks, quantum)
_BY_NAME = {kind.name: kind for family in _FAMILIES for kind in family.KINDS}

# A name without a declaration is a KeyError at the first import.
KINDS: dict[str, ToolKind] = {name: _BY_NAME[name] for names in _GROUPS.values() for name in names.split()}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names.split()}

GROUP = "noetl.tools"


def group_of(name: str) -> str:
    """What people do with a kind, in a few words."""
    return _GROUP_OF.get(name, PLUG_INS)


def load_kinds() -> OpenKinds:
    """The built-in kinds and those of installed plug-ins."""
    return OpenKinds(KINDS)


class OpenKinds(Mapping[str, ToolKind]):
    """Built-in kinds, then those of plug-ins, which are looked up at the first name that is not built in."""

    def __init__(self, built_in: Mapping[str, ToolKind]) -> None:
        self._built_in = built_in

    @cached_property
    def _all_kinds(self) -> dict[str, ToolKind]:
        # Built-in kinds come last: a plug-in cannot replace one.
        return {**plugin_kinds(), **self._built_in}

    def __getitem__(self, name: str) -> ToolKind:
        return self._built_in[name] if name in self._built_in else self._all_kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all_kinds)

    def __len__(self) -> int:
        return len(self._all_kinds)


def plugin_kinds() -> dict[str, ToolKind]:
    """Every plug-in's kind by name."""
    from importlib.metadata import entry_points

    kinds = {}
    for entry in entry_points(group=GROUP):
        try:
            kind = getattr(entry.load(), "kind", None)
        except Exception as error:  # the module is not ours: importing it may raise anything
            broken = f"{entry.value} in working order (importing it fails here: {error})"
            kinds[entry.name] = ToolKind(name=entry.name, plugin=broken, open_inputs=True)
            continue
        kinds[entry.name] = kind if isinstance(kind, ToolKind) else ToolKind(name=entry.name, open_inputs=True)
    return kinds
