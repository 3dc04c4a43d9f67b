"""Migrating: a document of an older dialect as v10 text that does the same (MIG-01…03).

Text goes in and text comes out: parts that are the same in both dialects are copied unchanged, comments stay with their
elements, and constructs without a v10 form are listed, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.base.diagnostics import Source
from noetl.language.grammar.root import API_V10, ROOT
from noetl.language.migrating import eval_rules, fragments
from noetl.language.migrating.document_editor import SourceDocument, item_id, key_id, origin_of
from noetl.language.migrating.document_writer import write
from noetl.language.migrating.eval_rules import EvalRules, VarPlacement
from noetl.language.migrating.fragments import Copier, Entry, FragmentEntry, Item, ListFragment, Literal, Mapped
from noetl.language.migrating.notes import Note, Notes, relocated
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect, Playbook, StepSyntax, Sugar, TaskSyntax
from noetl.language.v2_case import port as v2_case


class MigratedPlaybook(msgspec.Struct, frozen=True):
    """A document as v10."""

    # v10 text, except at the places in `blocked`.
    text: str
    # Changes that go beyond spelling.
    notes: tuple[Note, ...] = ()
    # Constructs without a v10 form. A person has to rewrite them.
    blocked: tuple[Note, ...] = ()
    # Changes of behaviour. A person has to agree to them.
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


# The root of a migrated document: its sections as they were, its identity under `metadata`, its version v10.


def root_pieces(
    playbook: Playbook, old: SourceDocument, steps: list[Item], task: Callable[[TaskSyntax], Mapped], notes: Notes
) -> Mapped:
    root, copier = playbook.node, Copier(old)
    entries: list[Entry] = []
    for key, key_node, _ in root.items():
        match key:
            case "apiVersion":
                entries.append(FragmentEntry(key, Literal(API_V10), key_id(key_node)))
            case "metadata" if _stays(root):
                entries.append(copier.entry(root, key))
            case "name" | "path" | "metadata":
                # Name, path and metadata become one block, where the first of them stood.
                if not _stays(root) and not any(entry.origin == "metadata" for entry in entries):
                    entries.append(FragmentEntry("metadata", _metadata(root, copier), "metadata"))
            case "workflow":
                entries.append(FragmentEntry(key, ListFragment(tuple(steps)), key_id(key_node)))
            case "workbook" if any(one.policy is not None for one in playbook.workbook.values()):
                named = tuple(FragmentEntry(name, task(one)) for name, one in playbook.workbook.items())
                entries.append(FragmentEntry(key, Mapped((FragmentEntry("tasks", Mapped(named)),)), key_id(key_node)))
            case _ if key in ROOT.names():
                entries.append(copier.entry(root, key))
            case _:
                entries += fragments.kept_as_comments(copier, fragments.only(root, key), (), notes)
    return Mapped(tuple(_with_key_origin(entry, root) for entry in entries))


def _stays(root: Mapping) -> bool:
    block = root.get("metadata")
    lifted = any(key in root and not (isinstance(block, Mapping) and key in block) for key in ("name", "path"))
    return isinstance(block, Mapping) and not lifted and "dialect" not in block


def _with_key_origin(entry: Entry, root: Mapping) -> Entry:
    """Metadata goes where the first part of it stood."""
    if not isinstance(entry, FragmentEntry) or entry.origin != "metadata":
        return entry
    origin = origin_of(root, "metadata")
    return FragmentEntry(entry.key, entry.value, origin)


def _metadata(root: Mapping, copier: Copier) -> Mapped:
    """Identity in its one place; `dialect` goes, since the version now says it."""
    block = root.get("metadata")
    lifted = [key for key in ("name", "path") if key in root and not (isinstance(block, Mapping) and key in block)]
    entries: list[Entry] = [copier.renamed_entry(root, key, key) for key in lifted]
    flow = False
    if isinstance(block, Mapping):
        entries += copier.entries(block, [key for key in block.values if key != "dialect"])
        flow = copier.old.is_flow(block)
    return Mapped(tuple(entries), flow=flow)


# Steps of v2-eval as v10: admission for `when`, names for labels, policies for `eval`, routers for `next` (MIG-01).

_KNOWN = ("step", "desc", "spec", "when", "args", "loop", "tool", "set_ctx", "result", "next")


class EvalSteps:
    def __init__(self, playbook: Playbook, copier: Copier, notes: Notes) -> None:
        self.playbook = playbook
        self.copier = copier
        self.notes = notes

    def items(self) -> list[Item]:
        return [
            Item(_EvalStep(step, self.copier, self.notes).pieces(), item_id(step.node)) for step in self.playbook.steps
        ]

    def task(self, task: TaskSyntax) -> Mapped:
        """A task of the workbook, which has no step around it."""
        rules = EvalRules(self.copier, VarPlacement({}, {}), self.notes)
        policy = [FragmentEntry("policy", Mapped((rules.rules(task, task.policy),)))] if task.policy else []
        return Mapped(tuple(fragments.task_entries(self.copier, task, None, policy)))


class _EvalStep:
    def __init__(self, step: StepSyntax, copier: Copier, notes: Notes) -> None:
        self.step = step
        self.node = step.node
        self.notes = notes
        self.variables = eval_rules.step_vars(step, notes)
        self.copier = copier.with_names(self.variables.names)
        self.rules = EvalRules(self.copier, self.variables, notes)

    def pieces(self) -> Mapped:
        entries: list[Entry] = []
        for key, key_node, _ in self.node.items():
            match key:
                case "spec" | "when":
                    # `spec` and `when` both become the new `spec`: it is written where the first of them stood.
                    if not any(entry.origin == "spec" for entry in entries):
                        entries += self._spec()
                case "tool":
                    entries.append(FragmentEntry(key, self._tool(), key_id(key_node)))
                case "next" if self.step.router is not None:
                    entries.append(self._next(key_node))
                case "loop" if self.variables.reducers:
                    entries.append(FragmentEntry(key, self._loop(), key_id(key_node)))
                case _ if key in _KNOWN:
                    entries.append(self.copier.entry(self.node, key))
                case _:
                    entries += fragments.kept_as_comments(self.copier, fragments.only(self.node, key), (), self.notes)
        return Mapped(tuple(self._placed(entry) for entry in entries), flow=self.copier.old.is_flow(self.node))

    def _placed(self, entry: Entry) -> Entry:
        if not isinstance(entry, FragmentEntry) or entry.origin != "spec":
            return entry
        return FragmentEntry(entry.key, entry.value, origin_of(self.node, "spec"))

    def _spec(self) -> list[FragmentEntry]:
        """The step's spec, with the older options in their new places; an empty spec is not written."""
        spec = self.step.spec
        kept: list[Entry] = []
        policy: list[FragmentEntry] = []
        if "when" in self.node:
            policy.append(eval_rules.admit_entry(self.copier, self.node))
        for key in spec.values if spec is not None else ():
            if key == "timeout" and spec is not None:
                policy.append(eval_rules.lifecycle_entry(self.copier, spec, self.notes))
            elif key != "next_mode" and spec is not None:
                kept.append(self.copier.entry(spec, key))
        if policy:
            kept.append(FragmentEntry("policy", Mapped(tuple(policy))))
        return [FragmentEntry("spec", Mapped(tuple(kept)), "spec")] if kept else []

    def _tool(self) -> Mapped | ListFragment:
        tool = self.node.values["tool"]
        if not isinstance(tool, Sequence):
            task = self.step.tasks[0] if self.step.tasks else None
            if not isinstance(task, TaskSyntax):
                return Mapped(())
            # A written name may also be the name of a workbook task or a secret.
            return self._task(task, task.node if task.name_node is not None else None)
        items: list[Item] = []
        # Comments belong to the list item, and in v2-eval the task is below its label.
        labels = {id(task.node): item for item in tool for task in self.step.tasks if _holds_node(item, task.node)}
        for task in self.step.tasks:
            if isinstance(task, Sugar):
                continue
            item = labels.get(id(task.node), task.node)
            items.append(Item(self._task(task, item), item_id(item)))
            items += self._previous(task)
        return ListFragment(tuple(items), flow=self.copier.old.is_flow(tool))

    def _task(self, task: TaskSyntax, item: Node | None) -> Mapped:
        flow = self.copier.old.is_flow(task.node)
        name = None
        if item is not None and task.name is not None:
            origin = key_id(task.name_node) if task.name_node and not flow else ""
            name = FragmentEntry("name", fragments.literal(task.name), origin)
        policy = [FragmentEntry("policy", Mapped((self.rules.rules(task, task.policy),)))] if task.policy else []
        entries = fragments.task_entries(self.copier, task, name, policy)
        return Mapped(tuple(entries), flow=flow)

    def _previous(self, task: TaskSyntax) -> list[Item]:
        """`set_prev` as a task of its own: a noop whose result is the value that was set."""
        rules = task.policy.rules if task.policy else ()
        if all(rule.then.set_prev is None for rule in rules):
            return []
        # The noop runs whenever the pipeline continues, so every rule that continues must set the value, and no other
        # rule may.
        complete = rules[-1].when is None and all(
            (rule.then.set_prev is not None) == (rule.then.do == "continue") for rule in rules
        )
        if not complete:
            message = "set_prev is not set on every way to the next task, and v10 has no set_prev"
            self.notes.blocked(task, message, "write set_iter, and read it in the next task instead of _prev")
            return []
        name = eval_rules.previous_name(task)
        self.notes.changed(task, f"set_prev is now the result of a task {name} of its own")
        value = fragments.literal(f"{{{{ iter.{name} }}}}")
        return [
            Item(fragments.mapped({"name": fragments.literal(name), "kind": Literal("noop"), "args": value}, flow=True))
        ]

    def _loop(self) -> Mapped:
        loop = self.node.values["loop"]
        assert isinstance(loop, Mapping)
        spec = loop.get("spec")
        inner = list(self.copier.entries(spec, spec.values)) if isinstance(spec, Mapping) else []
        # In v10 the loop says how shared variables are folded, not the rule that sets them.
        reducers = Mapped(
            tuple(FragmentEntry(key, Literal(op)) for key, op in self.variables.reducers.items()), flow=True
        )
        inner.append(FragmentEntry("policy", Mapped((FragmentEntry("reducers", reducers),), flow=True)))
        origin = origin_of(loop, "spec")
        kept = self.copier.entries(loop, [key for key in loop.values if key != "spec"])
        flow = self.copier.old.is_flow(loop)
        return Mapped((*kept, FragmentEntry("spec", Mapped(tuple(inner), flow=True), origin)), flow=flow)

    def _next(self, key_node: Scalar) -> FragmentEntry:
        arcs = self.node.values["next"]
        assert isinstance(arcs, Sequence)
        assert self.step.router is not None
        entries: list[FragmentEntry] = []
        spec = self.step.spec
        if spec is not None and "next_mode" in spec:
            origin = key_id(spec.keys["next_mode"])
            mode = Mapped((FragmentEntry("mode", Literal(self.step.router.mode), origin),), flow=False)
            entries.append(FragmentEntry("spec", mode))
        entries.append(FragmentEntry("arcs", self.copier.listed(arcs)))
        return FragmentEntry("next", Mapped(tuple(entries), flow=self.copier.old.is_flow(arcs)), key_id(key_node))


def _holds_node(item: Node, node: Node) -> bool:
    return item is node or (isinstance(item, Mapping) and any(value is node for value in item.values.values()))
