"""Conversion: a playbook text as v10, checked before it is returned (MIG-01…06).

Text goes in; out comes v10 text with what happened to it, or the reasons why there is none. `migrate`, `run --migrate`,
`register --migrate` and the server's route all ask here, so that they agree. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from noetl.base.diagnostics import Findings, Source
from noetl.language.checking import Checked, check
from noetl.language.formatting.layout import UnformattableError
from noetl.language.migrating.migrator import MigratedPlaybook, migrate
from noetl.language.migrating.notes import Note
from noetl.language.migrating.rescue import repaired, rescue, respell, with_typos_fixed
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.reader import read_playbook
from noetl.language.reading.yaml import read_yaml
from noetl.net.kinds import Kinds

# A corrected typo can reveal a construct to rewrite, which can reveal another typo. The number of rounds
# bounds the work.
_ROUNDS = 4


class ConversionOutcome(StrEnum):
    """The result of a conversion."""

    UNCHANGED = "already v10"
    MIGRATED = "migrated"
    BLOCKED = "needs a person"
    REFUSED = "refused"


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A text and its form in v10."""

    outcome: ConversionOutcome
    before: Checked  # as it was written
    # The new text, checked. None if there is no v10 text.
    after: Checked | None = None
    # Changes that go beyond spelling.
    notes: tuple[Note, ...] = ()
    # Places that need a person: constructs without a v10 form, and constructs that would behave differently.
    blocked: tuple[Note, ...] = ()
    # Whether the text was already v10 apart from misspelled words.
    typos_only: bool = False

    @property
    def text(self) -> str | None:
        return self.after.source.text if self.after is not None else None


def convert(
    source: Source, *, kinds: Kinds, dialect: Dialect | None = None, extensions: bool = False, proofs: bool = False
) -> Conversion:
    """The v10 form of a text. Never raises for anything that is written in it."""

    def checked(text: str) -> Checked:
        return check(Source(source.name, text), kinds=kinds, extensions=extensions, proofs=proofs)

    before = check(source, kinds=kinds, extensions=extensions, proofs=False, dialect=dialect)
    try:
        if before.ok and before.dialect is not None:
            migration = _migrated_document(source, before.dialect)
            return _conversion(before, checked(migration.text), migration)
        return _repaired_document(source, before, checked) or _rescued_document(source, before, checked)
    except UnformattableError:  # keys that are no text: the check of the old document has said so
        return Conversion(outcome=ConversionOutcome.REFUSED, before=before)


def _migrated_document(source: Source, dialect: Dialect) -> MigratedPlaybook:
    """A document that is accepted: first in the words of its dialect, then as v10."""
    spelled = respell(source, dialect)
    text = Source(source.name, spelled.text)
    playbook = read_playbook(text, Findings(), dialect=dialect)
    root = read_yaml(source, Findings())
    if playbook is None or root is None:
        return spelled
    done = migrate(text, playbook)
    # Notes have the places of the text that was migrated; where the words were changed before, they are led back.
    if text.text == source.text:
        return done
    done = done.relocated(root)
    return msgspec.structs.replace(done, notes=(*spelled.notes, *done.notes))


def _repaired_document(source: Source, before: Checked, checked: Callable[[str], Checked]) -> Conversion | None:
    """A document of an older dialect that lacks little: put right, then migrated like one that was accepted. None where
    its own dialect does not read it even so."""
    dialect = before.dialect
    if dialect not in (Dialect.V2_EVAL, Dialect.V2_CASE) or not _is_read_whole(source):
        return None
    first = repaired(source, dialect)
    root, own = read_yaml(source, Findings()), checked(first.text)
    if root is None or first.text == source.text or not own.ok or own.dialect is not dialect:
        return None
    done = _migrated_document(own.source, dialect).relocated(root)
    migration = msgspec.structs.replace(done, notes=(*first.notes, *done.notes))
    return _conversion(before, checked(migration.text), migration)


def _rescued_document(source: Source, before: Checked, checked: Callable[[str], Checked]) -> Conversion:
    """A document that is refused: construct by construct, and where that is not enough, with its typos put right."""
    text, notes = source, list[Note]()
    done = Conversion(outcome=ConversionOutcome.REFUSED, before=before)
    found, typos_only = before.diagnostics, before.dialect in (Dialect.V10, Dialect.V10_IO)
    for _ in range(_ROUNDS):
        # A text that cannot be read as it is written has lost something by now: of a key that stands twice, one.
        rescued = rescue(text) if _is_read_whole(text) else None
        if rescued is not None:
            after = checked(rescued.migration.text)
            notes += rescued.migration.notes
            typos_only = typos_only and not rescued.migration.notes
            done = _conversion(before, after, msgspec.structs.replace(rescued.migration, notes=tuple(notes)))
            if done.outcome is not ConversionOutcome.REFUSED:
                return msgspec.structs.replace(done, typos_only=typos_only and not done.blocked)
            text, found = after.source, (*rescued.problems, *after.diagnostics)
        typos = with_typos_fixed(text, found)
        if typos is None:
            return done
        text, notes = Source(source.name, typos.text), [*notes, *typos.notes]
    return done


def _is_read_whole(source: Source) -> bool:
    findings = Findings()
    read_yaml(source, findings)
    return not findings.has_errors


def _conversion(before: Checked, after: Checked, migration: MigratedPlaybook) -> Conversion:
    blocked = (*migration.blocked, *migration.differing)
    return Conversion(
        outcome=_outcome(before.source.text, after, blocked),
        before=before,
        after=after,
        notes=tuple(note for note in migration.notes if note not in migration.differing),
        blocked=blocked,
    )


def _outcome(text: str, after: Checked, blocked: tuple[Note, ...]) -> ConversionOutcome:
    if blocked:
        return ConversionOutcome.BLOCKED
    if not after.ok:
        return ConversionOutcome.REFUSED
    return ConversionOutcome.UNCHANGED if text == after.source.text else ConversionOutcome.MIGRATED
