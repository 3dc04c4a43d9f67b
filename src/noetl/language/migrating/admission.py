"""Conditions and limits of a whole step as v10 writes them: admission rules and lifecycle (MIG-01, C-02, C-30)."""

from __future__ import annotations

from noetl.base.durations import seconds
from noetl.base.source import is_template
from noetl.language.migrating.document_editor import key_id
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, ListFragment, Literal, Mapped, literal
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Scalar


def admit_entry(copier: Copier, step: Mapping) -> FragmentEntry:
    """A step's `when`: match allows, else denies. One that is always true only allows."""
    when = step.values["when"]
    always = isinstance(when, Scalar) and str(when.value).replace(" ", "").lower() in ("true", "{{true}}")
    rules = [_else(allow=always)]
    if not always:
        condition = copier.renamed_entry(step, "when", "when")
        rules.insert(0, Item(Mapped((FragmentEntry("when", condition.value), FragmentEntry("then", _allow(True))))))
    rule_list = FragmentEntry("rules", ListFragment(tuple(rules)))
    return FragmentEntry("admit", Mapped((rule_list,)), key_id(step.keys["when"]))


def lifecycle_entry(copier: Copier, spec: Mapping, notes: Notes) -> FragmentEntry:
    """A step's `spec.timeout`, in seconds."""
    node = spec.values["timeout"]
    value: FragmentEntry = copier.renamed_entry(spec, "timeout", "timeout_s")
    if isinstance(node, Scalar) and isinstance(node.value, str) and not is_template(node.value):
        length = seconds(node.value)
        value = FragmentEntry("timeout_s", literal(int(length) if length.is_integer() else length), value.origin)
    elif isinstance(node, Scalar) and isinstance(node.value, str):
        notes.changed(node, "the step's timeout is a template, and lifecycle.timeout_s counts seconds")
    return FragmentEntry("lifecycle", Mapped((value,), flow=True))


def _else(*, allow: bool) -> Item:
    return Item(Mapped((FragmentEntry("else", Mapped((FragmentEntry("then", _allow(allow)),))),)))


def _allow(allow: bool) -> Mapped:
    return Mapped((FragmentEntry("allow", Literal("true" if allow else "false")),), flow=True)
