"""Rescue: a document that no dialect reads as a whole, rewritten construct by construct (MIG-06, DIA-04).

A step of v2-case alone becomes v10 as it would in a v2-case document; every other construct is rewritten in its place,
by the tables of spellings and repairs (below, with the diagnostics that each repair fixes). Constructs in none of the
tables are unchanged, and the check of the new text reports them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Rows

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.migrating import fragments
from noetl.language.migrating.document_editor import SourceDocument, item_id, key_id
from noetl.language.migrating.document_writer import write
from noetl.language.migrating.edits import apply_fixes
from noetl.language.migrating.fixes import fix_for
from noetl.language.migrating.fragments import Copier, Entry, FragmentEntry, Item, ListFragment, Mapped, Piece
from noetl.language.migrating.migrator import MigratedPlaybook, root_pieces
from noetl.language.migrating.notes import Note, Notes
from noetl.language.migrating.repairs import conditions, steps, structure
from noetl.language.reading.constructs import DocumentParts, document_parts
from noetl.language.reading.markers import STRONG
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewrite, Rewriting, Spelling, Where
from noetl.language.reading.spellings.respelling import respelled, respelled_step
from noetl.language.reading.spellings.tool_words import workbook_names
from noetl.language.reading.yaml import read_yaml
from noetl.language.v2_case import port as v2_case

KNOBS = ("timeout", "verify_ssl", "follow_redirects", "async", "auth_mode")


def move_knobs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Run-time options beside `kind`, which v10 reads under `spec` alone (SPEC-05)."""
    if "kind" not in node:
        return node
    for key in KNOBS:
        spec = node.get("spec")
        if key in node and not (isinstance(spec, Mapping) and key in spec):
            rewriting.note(node.keys[key], f'"{key}" beside kind', f"spec.{key}")
            node = model.moved_into(node, "spec", key, key)
    return node


def _row(name: str, where: Where, older: str, canonical: str, rewrite: Rewrite) -> Spelling:
    return Spelling(id=name, where=where, older=older, canonical=canonical, dialects=(model.V10,), rewrite=rewrite)


def _own(name: str, where: Where, older: str, canonical: str, rewrite: Rewrite) -> Spelling:
    return Spelling(
        id=name, where=where, older=older, canonical=canonical, dialects=(model.V2_CASE, model.V2_EVAL), rewrite=rewrite
    )


REPAIRS: tuple[Spelling, ...] = (
    _row(
        "root-version",
        Where.DOCUMENT,
        "no apiVersion, or an older one",
        "apiVersion: noetl.io/v10",
        structure.name_version,
    ),
    _row("root-steps", Where.DOCUMENT, "`steps`", "`workflow`", structure.name_workflow),
    _row(
        "root-identity",
        Where.DOCUMENT,
        "`name`, `path`, `version`, … at the root",
        "`metadata`",
        structure.move_identity,
    ),
    _row("root-spec", Where.DOCUMENT, "`spec` at the root", "`executor.spec`", structure.move_spec),
    _row("root-vars", Where.DOCUMENT, "`vars` at the root", "`workload`", structure.move_vars),
    _row("root-entry", Where.DOCUMENT, "no step `start`", "`executor.spec.entry_step`", structure.name_entry),
    _row("root-end", Where.DOCUMENT, "`end` without a step of that name", "`- step: end`", structure.add_end),
    _row("step-pipe", Where.STEP, "`pipe`", "`tool`", steps.name_pipe),
    _row("step-policy", Where.STEP, "`policy` on a step", "`spec.policy`", steps.move_policy),
    _row("step-when", Where.STEP, "`when` on a step", "`spec.policy.admit.rules`", conditions.write_admission),
    _row("set-vars", Where.STEP, "`set_vars`", "`set_iter`, or `set_ctx`", conditions.place_variables),
    _row("step-case", Where.STEP, "`case` that only leads on", "`next.arcs`", structure.write_arcs),
    _row("next-then", Where.STEP, "`next: [{when, then}, {else}]`", "`next.arcs`", structure.write_conditions),
    _row("next-names", Where.STEP, "`next: [a, b]`", "`next: {spec: {mode: inclusive}, arcs}`", structure.write_fork),
    _row("step-mode", Where.STEP, "`spec.next_mode`, `spec.case_mode`", "`next.spec.mode`", structure.move_mode),
    _row("step-on-error", Where.STEP, "`spec.on_error`", "`spec.policy.failure.mode`", steps.write_failure_mode),
    _row("step-sink", Where.STEP, "`sink`", "a task that stores", steps.write_sink),
    _row("task-when", Where.STEP, "`when` on a task", "`choose`", conditions.write_choose),
    _row("task-eval", Where.TASK, "`eval: [{expr, do}]`", "`spec.policy.rules`", conditions.write_rules),
    _row("task-policy", Where.TASK, "`policy` on a task", "`spec.policy`", steps.move_policy),
    _row("task-policy-list", Where.TASK, "`policy: [{when, then}]`", "`policy: {rules: […]}`", steps.list_rules),
    _row("task-knobs", Where.TASK, "`timeout`, `verify_ssl`, … beside `kind`", "`spec`", move_knobs),
    _row("rule-order", Where.TASK, "`else` that is not the last rule", "`else` at the end", conditions.order_rules),
    _row("rule-expr", Where.RULE, "`expr`", "`when`", conditions.name_expression),
    _row("retry-bound", Where.ACTION, "`do: retry` without `attempts`", "`attempts: 3`", steps.bound_retry),
    _row(
        "retry-backoff",
        Where.ACTION,
        "`backoff` in another word",
        "`none`, `linear`, `exponential`",
        steps.name_backoff,
    ),
    _row("loop-iterator", Where.LOOP, "a loop without `iterator`", "`iterator: item`", steps.name_iterator),
    _row("rule-stray", Where.RULE, "`do` beside `when`", "`then: {do: …}`", conditions.move_actions),
    _row("rule-guard", Where.RULE, "a condition without braces", "`{{ … }}`", conditions.write_braces),
    _row("arc-expr", Where.ARC, "`expr`", "`when`", conditions.name_expression),
    _row("arc-guard", Where.ARC, "a condition without braces", "`{{ … }}`", conditions.write_braces),
)

# Repairs that do not depend on the dialect: a document without other mistakes is then migrated by the rules of its own
# dialect, which are more precise than the repairs of single constructs.
OWN_DIALECT_REPAIRS: tuple[Spelling, ...] = (
    _own("retry-bound", Where.RETRY, "a retry without `max_attempts`", "`max_attempts: 3`", steps.bound_policy),
    _own("retry-mode", Where.RETRY, "`spec.mode` in another word", "`fixed`, `linear`, `exponential`", steps.name_mode),
    _own("loop-words", Where.LOOP, "a loop in the words of two spellings", "`in`, `iterator`", steps.name_iterator),
    _own("root-entry", Where.DOCUMENT, "no step `start`", "`executor.spec.entry_step`", structure.name_entry),
    Spelling(
        id="step-empty",
        where=Where.STEP,
        older="a step that does nothing",
        canonical="`tool: {kind: noop}`",
        dialects=(model.V2_CASE,),
        rewrite=steps.add_noop,
    ),
)


# Repairs in an accepted document: keys that its dialect ignores with a warning, though they have a place in v10.
_READ_KEYS = {
    Dialect.V10: ("step-inputs",),
    Dialect.V10_IO: ("root-version", "step-inputs"),
}


class Rescued(msgspec.Struct, frozen=True):
    """`problems` are the remaining mistakes of a step that no rule could rewrite."""

    migration: MigratedPlaybook
    problems: tuple[Diagnostic, ...] = ()


def respell(source: Source, dialect: Dialect) -> MigratedPlaybook:
    """The text in the canonical spelling of its dialect, with a note for every change."""
    return _rewritten(source, dialect, [row for row in REPAIRS if row.id in _READ_KEYS.get(dialect, ())])


def repaired(source: Source, dialect: Dialect) -> MigratedPlaybook:
    """The text with corrections of mistakes that its own dialect refuses; unchanged if there are none."""
    return _rewritten(source, dialect, OWN_DIALECT_REPAIRS)


def _rewritten(source: Source, dialect: Dialect, repairs: Rows[Spelling]) -> MigratedPlaybook:
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None:
        return MigratedPlaybook(source.text)
    rewriting = Rewriting(dialect=dialect, findings=findings, rescue=True)
    return _migrated_text(source, root, respelled(root, rewriting, repairs), findings)


def rescue(source: Source) -> Rescued | None:
    """The document as v10, as far as it goes; None when it is no YAML mapping."""
    findings = Findings()
    root = read_yaml(source, findings)
    if root is None:
        return None
    case_steps = _case_steps(root)
    rewritten = respelled(root, Rewriting(dialect=Dialect.V10, findings=findings, rescue=True), REPAIRS)
    plain = _migrated_text(source, root, rewritten, findings)
    if not case_steps:
        return Rescued(plain)
    apart = Findings()
    rewritten = _with_case_steps(rewritten, case_steps, Rewriting(dialect=Dialect.V2_CASE, findings=apart, rescue=True))
    kept = [one for one in findings if not any(_holds(step, one) for step in case_steps.values())]
    migration = _migrated_text(source, root, rewritten, Findings([*kept, *apart]))
    done = _with_case_migrated(Source(source.name, migration.text), root, migration, set(case_steps))
    # A step that is no valid v2-case either may still be rewritten like those of other dialects.
    return msgspec.structs.replace(done, migration=plain) if done.problems else done


def with_typos_fixed(source: Source, found: tuple[Diagnostic, ...]) -> MigratedPlaybook | None:
    """The text with every misspelt word replaced by the one that was meant; None when no diagnostic names one."""
    fixes = [(one, fix) for one in found if one.code[0] == "E" and (fix := fix_for(one, source)) is not None]
    if not fixes:
        return None
    notes = tuple(Note(one.path, one.span, f'{one.message}; it is now "{fix.replacement}"') for one, fix in fixes)
    return MigratedPlaybook(apply_fixes(source.text, [fix for _, fix in fixes]), notes)


def _migrated_text(source: Source, root: Mapping, rewritten: Mapping, findings: Findings) -> MigratedPlaybook:
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
    parts = document_parts(Mapping({"workflow": step.keys["step"]}, {"workflow": alone}, step.span, step.path))
    return _dialects(parts) == {Dialect.V2_CASE}


def _dialects(parts: DocumentParts) -> set[Dialect]:
    return {marker.dialect for marker in STRONG for _ in marker.find(parts)}


def _holds(step: Node, found: Diagnostic) -> bool:
    return step.span.start <= found.span.start < step.span.end


def _with_case_steps(root: Mapping, steps: dict[int, Mapping], rewriting: Rewriting) -> Mapping:
    workflow = root.get("workflow")
    if not isinstance(workflow, Sequence) or not steps:
        return root
    rewriting.workbook_names = workbook_names(root)
    items = [
        respelled_step(steps[number], rewriting) if number in steps else item for number, item in enumerate(workflow)
    ]
    return model.with_value(root, "workflow", model.with_items(workflow, items))


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


# Tree pieces: a rewritten document as pieces. Existing text is unchanged; only new parts are written.

# Everything between a key and its value.
_BETWEEN = re.compile(r"\s*:(?:\s|#[^\n]*\n)*")


def tree_pieces(root: Mapping, copier: Copier) -> Mapped:
    """The pieces of a whole document."""
    return _mapped_pieces(root, copier)


def node_piece(node: Node, copier: Copier, key: Scalar | None = None) -> Piece:
    """One value; `key` is the one it stood behind."""
    if not node.made:
        return copier.value(node, key)
    match node:
        case Scalar():
            return fragments.literal(node.value)
        case Sequence():
            items = (Item(node_piece(item, copier), item_id(item)) for item in node)
            return ListFragment(tuple(items), flow=copier.old.is_flow(node))
        case Mapping():
            return _mapped_pieces(node, copier)


def _mapped_pieces(node: Mapping, copier: Copier) -> Mapped:
    # A mapping that is not in the text has the place of its source: a scalar, and no braces there.
    flow = copier.old.is_flow(node)
    entries = tuple(_entry(node, name, copier, flow=flow) for name in node.values)
    return Mapped(entries, flow=flow or _is_short(node))


def _entry(owner: Mapping, name: str, copier: Copier, *, flow: bool) -> Entry:
    key, value = owner.keys[name], owner.values[name]
    if not key.made and not value.made and not flow and _stand_together(key, value, copier.old.source):
        return copier.entry(owner, name)
    text = fragments.scalar_text(name) if key.made else copier.old.source.cut(key.span)
    return FragmentEntry(text, node_piece(value, copier, key), key_id(key))


def _stand_together(key: Scalar, value: Node, source: Source) -> bool:
    """Whether the value is still the one that was written for this key."""
    return _BETWEEN.fullmatch(source.text, key.span.end, max(key.span.end, value.span.start)) is not None


def _is_short(node: Mapping) -> bool:
    """A new mapping of one plain value, which is easier to read on one line: `{do: fail}`."""
    return len(node) == 1 and all(isinstance(value, Scalar) and value.made for value in node.values.values())
