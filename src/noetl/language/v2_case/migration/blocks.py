"""Parts of a v2-case step that only change their spelling: its loop and its event handlers."""

from __future__ import annotations

from noetl.language.migrating.document_editor import item_id, key_id
from noetl.language.migrating.fragments import CopiedEntry, Copier, FragmentEntry, Item, ListFragment, Mapped
from noetl.language.reading.nodes import Mapping, Sequence
from noetl.language.reading.playbook import OnEvent, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.tasks import plain_task

_NEW = {"in": "in", "collection": "in", "iterator": "iterator", "element": "iterator"}


def loop_entry(copier: Copier, step: StepSyntax) -> FragmentEntry:
    loop = step.node.values["loop"]
    assert isinstance(loop, Mapping)
    return FragmentEntry("loop", _loop(copier, loop), key_id(step.node.keys["loop"]))


def _loop(copier: Copier, loop: Mapping) -> Mapped:
    """`in` and `iterator`, and everything else under spec: `batch_size` is `max_in_flight` (C-08)."""
    entries = [copier.renamed_entry(loop, key, new) for key, new in _NEW.items() if key in loop]
    spec = loop.get("spec")
    options: list[FragmentEntry] = [copier.renamed_entry(loop, "mode", "mode")] if "mode" in loop else []
    if isinstance(spec, Mapping):
        for key in spec.values:
            if key == "batch_size":
                options.append(copier.renamed_entry(spec, key, "max_in_flight"))
            elif key != "on_error" and not (key == "mode" and options):
                options.append(copier.renamed_entry(spec, key, key))
    if options:
        origin = key_id(loop.keys["spec"]) if "spec" in loop else ""
        entries.append(FragmentEntry("spec", Mapped(tuple(options), flow=True), origin))
    inner = loop.get("loop")
    if isinstance(inner, Mapping):
        entries.append(FragmentEntry("loop", _loop(copier, inner), key_id(loop.keys["loop"])))
    return Mapped(tuple(entries), flow=copier.old.is_flow(loop))


def handlers_entry(copier: Copier, step: StepSyntax, on_event: OnEvent) -> FragmentEntry:
    """`on_event` with its tasks in v10's form."""
    key = step.node.keys["on_event"]
    block = on_event.node
    handlers = tuple(
        Item(_handler(copier, handler.node, handler.tasks), item_id(handler.node)) for handler in on_event.handlers
    )
    listed = ListFragment(handlers)
    if isinstance(block, Sequence):
        return FragmentEntry("on_event", listed, key_id(key))
    assert isinstance(block, Mapping)
    entries: list[FragmentEntry | CopiedEntry] = copier.entries(block, ("spec",))
    entries.append(FragmentEntry("handlers", listed, key_id(block.keys["handlers"])))
    return FragmentEntry("on_event", Mapped(tuple(entries)), key_id(key))


def _handler(copier: Copier, node: object, tasks: tuple[object, ...]) -> Mapped:
    assert isinstance(node, Mapping)
    items = [Item(plain_task(copier, task, task.name or "task")) for task in tasks if isinstance(task, TaskSyntax)]
    then = FragmentEntry("then", ListFragment(tuple(items)), key_id(node.keys["then"]))
    return Mapped((*copier.entries(node, ("event", "when")), then))
