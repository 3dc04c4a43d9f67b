"""Rescue: a document that no dialect reads as a whole, rewritten construct by construct (MIG-06, DIA-04).

A step of v2-case alone becomes v10 as it would in a v2-case document; every other construct is rewritten where it
stands, by the tables of spellings and repairs. What none of them knows stays as it was, and the check of the new text
says so.
"""

from __future__ import annotations

import re

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings
from noetl.base.source import Source
from noetl.language.migrating.document_editor import SourceDocument, item_id, key_id
from noetl.language.migrating.document_writer import write
from noetl.language.migrating.fixes import apply_fixes, fix_for
from noetl.language.migrating.fragments import (
    CopiedEntry,
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Mapped,
    Piece,
    literal,
    scalar_text,
)
from noetl.language.migrating.migrator import MigratedPlaybook, root_pieces
from noetl.language.migrating.notes import Note, Notes
from noetl.language.migrating.repairs.table import OWN_DIALECT_REPAIRS, REPAIRS
from noetl.language.reading.constructs import Anatomy, dissect
from noetl.language.reading.markers import STRONG
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.spellings.model import Rewriting, with_items, with_value
from noetl.language.reading.spellings.respelling import respelled, respelled_step
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case import port as v2_case

# What is put right in a document that is accepted: keys that its dialect passes over with a warning, though they have
# a place in v10.
_READ_KEYS = {
    Dialect.V10: ("step-inputs",),
    Dialect.V10_IO: ("root-version", "step-inputs"),
}


class Rescued(msgspec.Struct, frozen=True):
    """`problems` are what is still wrong with a step that no rule could rewrite."""

    migration: MigratedPlaybook
    problems: tuple[Diagnostic, ...] = ()


def respell(source: Source, dialect: Dialect) -> MigratedPlaybook:
    """The text in the words of its dialect, with a note for every change."""
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None:
        return MigratedPlaybook(source.text)
    rewriting = Rewriting(dialect=dialect, findings=findings, rescue=True)
    repairs = [row for row in REPAIRS if row.id in _READ_KEYS.get(dialect, ())]
    return _written(source, root, respelled(root, rewriting, repairs), findings)


def repaired(source: Source, dialect: Dialect) -> MigratedPlaybook:
    """The text with what its own dialect does not forgive put right; unchanged where there is nothing of that kind."""
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None:
        return MigratedPlaybook(source.text)
    rewriting = Rewriting(dialect=dialect, findings=findings, rescue=True)
    return _written(source, root, respelled(root, rewriting, OWN_DIALECT_REPAIRS), findings)


def rescue(source: Source) -> Rescued | None:
    """The document as v10, as far as it goes; None when it is no YAML mapping."""
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None:
        return None
    case_steps = _case_steps(root)
    rewritten = respelled(root, Rewriting(dialect=Dialect.V10, findings=findings, rescue=True), REPAIRS)
    plain = _written(source, root, rewritten, findings)
    if not case_steps:
        return Rescued(plain)
    apart = Findings()
    rewritten = _with_case_steps(rewritten, case_steps, Rewriting(dialect=Dialect.V2_CASE, findings=apart, rescue=True))
    kept = [one for one in findings if not any(_holds(step, one) for step in case_steps.values())]
    migration = _written(source, root, rewritten, Findings([*kept, *apart]))
    done = _with_case_migrated(Source(source.name, migration.text), root, migration, set(case_steps))
    # A step that v2-case does not read either may still be rewritten like those of other dialects.
    return msgspec.structs.replace(done, migration=plain) if done.problems else done


def with_typos_fixed(source: Source, found: tuple[Diagnostic, ...]) -> MigratedPlaybook | None:
    """The text with every misspelt word replaced by the one that was meant; None when no diagnostic names one."""
    fixes = [(one, fix) for one in found if one.code[0] == "E" and (fix := fix_for(one, source)) is not None]
    if not fixes:
        return None
    notes = tuple(Note(one.path, one.span, f'{one.message}; it is now "{fix.replacement}"') for one, fix in fixes)
    return MigratedPlaybook(apply_fixes(source.text, [fix for _, fix in fixes]), notes)


def _written(source: Source, root: Mapping, rewritten: Mapping, findings: Findings) -> MigratedPlaybook:
    notes = tuple(Note(one.path, one.span, one.message) for one in findings if one.code == "I_ALIAS")
    if rewritten is root:
        return MigratedPlaybook(source.text)
    old = SourceDocument(source, root)
    return MigratedPlaybook(write(old, tree_pieces(rewritten, Copier(old))), notes)


def _case_steps(root: Mapping) -> dict[int, Mapping]:
    """The steps with marks of v2-case and of nothing else, by their number."""
    workflow = root.get("workflow")
    steps = dict(enumerate(workflow)) if isinstance(workflow, Sequence) else {}
    return {number: step for number, step in steps.items() if isinstance(step, Mapping) and _is_case_step(step)}


def _is_case_step(step: Mapping) -> bool:
    if "step" not in step or isinstance(step.get("tool"), Sequence):
        return False
    alone = Sequence((step,), step.span, step.path)
    parts = dissect(Mapping({"workflow": step.keys["step"]}, {"workflow": alone}, step.span, step.path))
    return _dialects(parts) == {Dialect.V2_CASE}


def _dialects(parts: Anatomy) -> set[Dialect]:
    return {marker.dialect for marker in STRONG for _ in marker.find(parts)}


def _holds(step: Node, found: Diagnostic) -> bool:
    return step.span.start <= found.span.start < step.span.end


def _with_case_steps(root: Mapping, steps: dict[int, Mapping], rewriting: Rewriting) -> Mapping:
    workflow = root.get("workflow")
    if not isinstance(workflow, Sequence) or not steps:
        return root
    items = [
        respelled_step(steps[number], rewriting) if number in steps else item for number, item in enumerate(workflow)
    ]
    return with_value(root, "workflow", with_items(workflow, items))


def _with_case_migrated(source: Source, given: Mapping, first: MigratedPlaybook, numbers: set[int]) -> Rescued:
    """The text with its v2-case steps migrated; the others are v10 already."""
    findings = Findings()
    root = read_yaml(source, findings)
    workflow = root.get("workflow") if root is not None else None
    if root is None or not isinstance(workflow, Sequence):
        return Rescued(first, tuple(findings))
    playbook = v2_case.read(root, ReadContext(dialect=Dialect.V2_CASE, findings=findings))
    steps = {item.span.start: number for number, item in enumerate(workflow)}
    prefixes = tuple(f"workflow[{number}]" for number in numbers)
    problems = tuple(one for one in findings if one.code[0] == "E" and one.path.startswith(prefixes))
    if playbook is None or problems:
        return Rescued(first, problems)
    notes, old = Notes(), SourceDocument(source, root)
    kept = {start for start, number in steps.items() if number not in numbers}
    case = v2_case.migrated_steps(playbook, old, notes, kept)
    text = write(old, root_pieces(playbook, old, case.items(), case.task, notes))
    done = MigratedPlaybook(text, notes.all_changed, notes.all_blocked, notes.all_differing).relocated(given)
    return Rescued(msgspec.structs.replace(done, notes=(*first.notes, *done.notes)))


# Tree pieces: a rewritten document as pieces. What was written stays as it was written; what is new is written anew.

_BETWEEN = re.compile(r"\s*:(?:\s|#[^\n]*\n)*")  # what stands between a key and its value


def tree_pieces(root: Mapping, copier: Copier) -> Mapped:
    """The pieces of a whole document."""
    return _mapped(root, copier)


def node_piece(node: Node, copier: Copier, key: Scalar | None = None) -> Piece:
    """One value; `key` is the one it stood behind."""
    if not node.made:
        return copier.value(node, key)
    match node:
        case Scalar():
            return literal(node.value)
        case Sequence():
            items = (Item(node_piece(item, copier), item_id(item)) for item in node)
            return ListFragment(tuple(items), flow=copier.old.is_flow(node))
        case Mapping():
            return _mapped(node, copier)


def _mapped(node: Mapping, copier: Copier) -> Mapped:
    # A mapping that did not stand in the text has the place of what it was made from: a scalar, and no braces there.
    flow = copier.old.is_flow(node)
    entries = tuple(_entry(node, name, copier, flow=flow) for name in node.values)
    return Mapped(entries, flow=flow or _is_short(node))


def _entry(owner: Mapping, name: str, copier: Copier, *, flow: bool) -> FragmentEntry | CopiedEntry:
    key, value = owner.keys[name], owner.values[name]
    if not key.made and not value.made and not flow and _stand_together(key, value, copier.old.source):
        return copier.entry(owner, name)
    text = scalar_text(name) if key.made else copier.old.source.cut(key.span)
    return FragmentEntry(text, node_piece(value, copier, key), key_id(key))


def _stand_together(key: Scalar, value: Node, source: Source) -> bool:
    """Whether the value is still the one that was written behind this key."""
    return _BETWEEN.fullmatch(source.text, key.span.end, max(key.span.end, value.span.start)) is not None


def _is_short(node: Mapping) -> bool:
    """A new mapping of one plain value, which is easier to read on one line: `{do: fail}`."""
    return len(node) == 1 and all(isinstance(value, Scalar) and value.made for value in node.values.values())
