"""Tasks in v10's form: name, kind, inputs as they were, and everything that says *how* under `spec`."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.language.migrating.document_editor import key_id
from noetl.language.migrating.fragments import CopiedEntry, Copier, FragmentEntry, Mapped
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import TaskSyntax

# Runtime knobs that v2 also read beside `kind`, and v10 only under spec (SPEC-05).
KNOBS = ("timeout", "verify_ssl", "follow_redirects", "retry", "async", "auth_mode")
_NOT_INPUTS = ("name", "kind", "spec", "eval", *KNOBS)


def task_entries(
    copier: Copier,
    task: TaskSyntax,
    name: FragmentEntry | None,
    policy: Sequence[FragmentEntry] = (),
    replaced: dict[str, FragmentEntry] | None = None,
) -> list[FragmentEntry | CopiedEntry]:
    """The entries of one task; `replaced` inputs take the place of the written ones."""
    node = task.node
    assert isinstance(node, Mapping)
    entries: list[FragmentEntry | CopiedEntry] = [name] if name is not None else []
    entries += copier.entries(node, ("kind",))
    added = dict(replaced or {})
    for key in node.values:
        if key in _NOT_INPUTS and not (key == "name" and "name" in task.inputs):
            continue
        if key in added:
            entries.append(added.pop(key))
        else:
            entries.append(copier.entry(node, key))
    entries += added.values()
    spec = _spec(copier, node, policy)
    return [*entries, spec] if spec is not None else entries


def _spec(copier: Copier, node: Mapping, policy: Sequence[FragmentEntry]) -> FragmentEntry | CopiedEntry | None:
    spec = node.get("spec")
    knobs = [key for key in KNOBS if key in node]
    if not policy and not knobs:
        return copier.entry(node, "spec") if "spec" in node else None
    kept: list[FragmentEntry | CopiedEntry] = []
    if isinstance(spec, Mapping):
        kept += copier.entries(spec, spec.values)
    kept += copier.entries(node, knobs)
    origin = key_id(node.keys["spec"]) if "spec" in node else ""
    return FragmentEntry("spec", Mapped((*kept, *policy)), origin)
