"""Conditions and limits of a whole step as v10 writes them: admission rules and lifecycle (MIG-01, C-02, C-30)."""

from __future__ import annotations

from noetl.document.nodes import Mapping, Scalar
from noetl.durations import seconds
from noetl.migration.notes import Notes
from noetl.migration.pieces import Copier, Entry, Item, Listed, Literal, Mapped, literal
from noetl.migration.sheet import key_id
from noetl.source import is_template


def admit_entry(copier: Copier, step: Mapping) -> Entry:
    """A step's `when`: match allows, else denies. One that is always true only allows."""
    when = step.values["when"]
    always = isinstance(when, Scalar) and str(when.value).replace(" ", "").lower() in ("true", "{{true}}")
    rules = [_else(allow=always)]
    if not always:
        condition = copier.renamed_entry(step, "when", "when")
        rules.insert(0, Item(Mapped((Entry("when", condition.value), Entry("then", _allow(True))))))
    rule_list = Entry("rules", Listed(tuple(rules)))
    return Entry("admit", Mapped((rule_list,)), key_id(step.keys["when"]))


def lifecycle_entry(copier: Copier, spec: Mapping, notes: Notes) -> Entry:
    """A step's `spec.timeout`, in seconds."""
    node = spec.values["timeout"]
    value: Entry = copier.renamed_entry(spec, "timeout", "timeout_s")
    if isinstance(node, Scalar) and isinstance(node.value, str) and not is_template(node.value):
        length = seconds(node.value)
        value = Entry("timeout_s", literal(int(length) if length.is_integer() else length), value.origin)
    elif isinstance(node, Scalar) and isinstance(node.value, str):
        notes.changed(node, "the step's timeout is a template, and lifecycle.timeout_s counts seconds")
    return Entry("lifecycle", Mapped((value,), flow=True))


def _else(*, allow: bool) -> Item:
    return Item(Mapped((Entry("else", Mapped((Entry("then", _allow(allow)),))),)))


def _allow(allow: bool) -> Mapped:
    return Mapped((Entry("allow", Literal("true" if allow else "false")),), flow=True)
