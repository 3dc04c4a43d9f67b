"""Migrating: a document of an older dialect as v10 text that does the same (MIG-01…03).

Text goes in and text comes out: what is the same in both dialects is copied as it was written, comments stay with
what they are about, and what v10 cannot say is listed instead of guessed at.
"""

from __future__ import annotations

import msgspec

from noetl.base.source import Source
from noetl.language.migrating.document_editor import SourceDocument
from noetl.language.migrating.document_writer import write
from noetl.language.migrating.eval_steps import EvalSteps
from noetl.language.migrating.fragments import Copier
from noetl.language.migrating.notes import Note, Notes, relocated
from noetl.language.migrating.root import root_pieces
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect, Playbook
from noetl.language.v2_case import port as v2_case


class MigratedPlaybook(msgspec.Struct, frozen=True):
    """`text` is v10, except where `blocked` says so; `notes` tell what changed in more than its spelling, those of
    `differing` what the playbook does now and did not."""

    text: str
    notes: tuple[Note, ...] = ()
    blocked: tuple[Note, ...] = ()
    differing: tuple[Note, ...] = ()

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
