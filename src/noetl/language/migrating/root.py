"""The root of a migrated document: its sections as they were, its identity under `metadata`, its version v10."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.root import ROOT
from noetl.language.migrating.document_editor import SourceDocument, key_id
from noetl.language.migrating.fragments import (
    CommentedEntry,
    CopiedEntry,
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
)
from noetl.language.migrating.notes import Notes
from noetl.language.migrating.unknown_keys import kept_as_comments, only
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Playbook, TaskSyntax

API_VERSION = "noetl.io/v10"


def root_pieces(
    playbook: Playbook, old: SourceDocument, steps: list[Item], task: Callable[[TaskSyntax], Mapped], notes: Notes
) -> Mapped:
    root, copier = playbook.node, Copier(old)
    entries: list[FragmentEntry | CopiedEntry | CommentedEntry] = []
    for key, key_node, _ in root.items():
        match key:
            case "apiVersion":
                entries.append(FragmentEntry(key, Literal(API_VERSION), key_id(key_node)))
            case "metadata" if _stays(root):
                entries.append(copier.entry(root, key))
            case "name" | "path" | "metadata":
                if not _stays(root) and not any(entry.origin == "metadata" for entry in entries):
                    entries.append(FragmentEntry("metadata", _metadata(root, copier), "metadata"))
            case "workflow":
                entries.append(FragmentEntry(key, ListFragment(tuple(steps)), key_id(key_node)))
            case "workbook" if any(_is_rewritten(one) for one in playbook.workbook.values()):
                named = tuple(FragmentEntry(name, task(one)) for name, one in playbook.workbook.items())
                entries.append(FragmentEntry(key, Mapped((FragmentEntry("tasks", Mapped(named)),)), key_id(key_node)))
            case _ if key in ROOT.names():
                entries.append(copier.entry(root, key))
            case _:
                entries += kept_as_comments(copier, only(root, key), (), notes)
    return Mapped(tuple(_with_key_origin(entry, root) for entry in entries))


def _stays(root: Mapping) -> bool:
    block = root.get("metadata")
    lifted = any(key in root and not (isinstance(block, Mapping) and key in block) for key in ("name", "path"))
    return isinstance(block, Mapping) and not lifted and "dialect" not in block


def _with_key_origin(
    entry: FragmentEntry | CopiedEntry | CommentedEntry, root: Mapping
) -> FragmentEntry | CopiedEntry | CommentedEntry:
    """Metadata goes where the first part of it stood."""
    if not isinstance(entry, FragmentEntry) or entry.origin != "metadata":
        return entry
    origin = key_id(root.keys["metadata"]) if "metadata" in root else ""
    return FragmentEntry(entry.key, entry.value, origin)


def _metadata(root: Mapping, copier: Copier) -> Mapped:
    """Identity in its one place; `dialect` goes, since the version now says it."""
    block = root.get("metadata")
    lifted = [key for key in ("name", "path") if key in root and not (isinstance(block, Mapping) and key in block)]
    entries: list[FragmentEntry | CopiedEntry] = [copier.renamed_entry(root, key, key) for key in lifted]
    flow = False
    if isinstance(block, Mapping):
        entries += copier.entries(block, [key for key in block.values if key != "dialect"])
        flow = copier.old.is_flow(block)
    return Mapped(tuple(entries), flow=flow)


def _is_rewritten(task: TaskSyntax) -> bool:
    return task.policy is not None
