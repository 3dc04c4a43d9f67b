"""Migrating: a document of an older dialect as v10 text that does the same (MIG-01…03).

Text goes in and text comes out: what is the same in both dialects is copied as it was written, comments stay with
what they are about, and what v10 cannot say is listed instead of guessed at.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.base.source import Source
from noetl.language.grammar.root import ROOT
from noetl.language.migrating.document_editor import SourceDocument, key_id
from noetl.language.migrating.document_writer import write
from noetl.language.migrating.eval_steps import EvalSteps
from noetl.language.migrating.fragments import (
    CommentedEntry,
    CopiedEntry,
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    kept_as_comments,
    only,
)
from noetl.language.migrating.notes import Note, Notes, relocated
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect, Playbook, TaskSyntax
from noetl.language.v2_case import port as v2_case


class MigratedPlaybook(msgspec.Struct, frozen=True):
    """A document as v10."""

    text: str  # v10, except where `blocked` says so
    notes: tuple[Note, ...] = ()  # what changed in more than its spelling
    blocked: tuple[Note, ...] = ()  # what v10 cannot say: a person has to rewrite it
    differing: tuple[Note, ...] = ()  # what the playbook does now and did not: a person has to agree

    def relocated(self, root: Mapping) -> MigratedPlaybook:
        """The same with every note at its place in the document at `root`."""
        kinds = (self.notes, self.blocked, self.differing)
        return MigratedPlaybook(self.text, *(tuple(relocated(note, root) for note in notes) for notes in kinds))


def migrate(source: Source, playbook: Playbook) -> MigratedPlaybook:
    """The v10 form of a document that read without errors. A v10 document stays as it is, to the byte."""
    if playbook.dialect.rules is Dialect.V10:
        return MigratedPlaybook(source.text)
    notes = Notes()
    old = SourceDocument(source, playbook.node)
    if old.aliased:
        notes.changed(playbook, "anchors and aliases are written out")
    is_eval = playbook.dialect is Dialect.V2_EVAL
    steps = EvalSteps(playbook, Copier(old), notes) if is_eval else v2_case.migrated_steps(playbook, old, notes)
    document = root_pieces(playbook, old, steps.items(), steps.task, notes)
    return MigratedPlaybook(write(old, document), notes.all_changed, notes.all_blocked, notes.all_differing)


# The root of a migrated document: its sections as they were, its identity under `metadata`, its version v10.

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
