"""Steps of v2-eval as v10: admission for `when`, names for labels, policies for `eval`, routers for `next` (MIG-01)."""

from __future__ import annotations

from noetl.language.migrating.document_editor import item_id, key_id
from noetl.language.migrating.eval_rules import EvalRules, admit_entry, lifecycle_entry, previous_name
from noetl.language.migrating.eval_vars import VarPlacement, step_vars
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
    literal,
    only,
    task_entries,
)
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Playbook, StepSyntax, Sugar, TaskSyntax

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
        return Mapped(tuple(task_entries(self.copier, task, None, policy)))


class _EvalStep:
    def __init__(self, step: StepSyntax, copier: Copier, notes: Notes) -> None:
        self.step = step
        self.node = step.node
        self.notes = notes
        self.variables = step_vars(step, notes)
        self.copier = copier.with_names(self.variables.names)
        self.rules = EvalRules(self.copier, self.variables, notes)

    def pieces(self) -> Mapped:
        entries: list[FragmentEntry | CopiedEntry | CommentedEntry] = []
        for key, key_node, _ in self.node.items():
            match key:
                case "spec" | "when":
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
                    entries += kept_as_comments(self.copier, only(self.node, key), (), self.notes)
        return Mapped(tuple(self._placed(entry) for entry in entries), flow=self.copier.old.is_flow(self.node))

    def _placed(
        self, entry: FragmentEntry | CopiedEntry | CommentedEntry
    ) -> FragmentEntry | CopiedEntry | CommentedEntry:
        if not isinstance(entry, FragmentEntry) or entry.origin != "spec":
            return entry
        return FragmentEntry(entry.key, entry.value, key_id(self.node.keys["spec"]) if "spec" in self.node else "")

    def _spec(self) -> list[FragmentEntry]:
        """The step's spec: what it was, with the older options in their new places. Nothing left, nothing written."""
        spec = self.step.spec
        kept: list[FragmentEntry | CopiedEntry] = []
        policy: list[FragmentEntry] = []
        if "when" in self.node:
            policy.append(admit_entry(self.copier, self.node))
        for key in spec.values if spec is not None else ():
            if key == "timeout" and spec is not None:
                policy.append(lifecycle_entry(self.copier, spec, self.notes))
            elif key != "next_mode" and spec is not None:
                kept.append(self.copier.entry(spec, key))
        if policy:
            kept.append(FragmentEntry("policy", Mapped(tuple(policy))))
        return [FragmentEntry("spec", Mapped(tuple(kept)), "spec")] if kept else []

    def _tool(self) -> Mapped | ListFragment:
        tool = self.node.values["tool"]
        if not isinstance(tool, Sequence):
            task = self.step.tasks[0] if self.step.tasks else None
            return self._task(task, None) if isinstance(task, TaskSyntax) else Mapped(())
        items: list[Item] = []
        labels = {id(task.node): item for item in tool for task in self.step.tasks if _holds(item, task.node)}
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
            name = FragmentEntry("name", literal(task.name), origin)
        policy = [FragmentEntry("policy", Mapped((self.rules.rules(task, task.policy),)))] if task.policy else []
        entries = task_entries(self.copier, task, name, policy)
        return Mapped(tuple(entries), flow=flow)

    def _previous(self, task: TaskSyntax) -> list[Item]:
        """`set_prev` as a task of its own: a noop whose result is the value that was set."""
        rules = task.policy.rules if task.policy else ()
        if all(rule.then.set_prev is None for rule in rules):
            return []
        complete = rules[-1].when is None and all(
            (rule.then.set_prev is not None) == (rule.then.do == "continue") for rule in rules
        )
        if not complete:
            message = "set_prev is not set on every way to the next task, and v10 has no set_prev"
            self.notes.blocked(task, message, "write set_iter, and read it in the next task instead of _prev")
            return []
        name = previous_name(task)
        self.notes.changed(task, f"set_prev is now the result of a task {name} of its own")
        value = literal(f"{{{{ iter.{name} }}}}")
        return [
            Item(
                Mapped(
                    (
                        FragmentEntry("name", literal(name)),
                        FragmentEntry("kind", Literal("noop")),
                        FragmentEntry("args", value),
                    ),
                    flow=True,
                )
            )
        ]

    def _loop(self) -> Mapped:
        loop = self.node.values["loop"]
        assert isinstance(loop, Mapping)
        spec = loop.get("spec")
        inner = list(self.copier.entries(spec, spec.values)) if isinstance(spec, Mapping) else []
        reducers = Mapped(
            tuple(FragmentEntry(key, Literal(op)) for key, op in self.variables.reducers.items()), flow=True
        )
        inner.append(FragmentEntry("policy", Mapped((FragmentEntry("reducers", reducers),), flow=True)))
        origin = key_id(loop.keys["spec"]) if "spec" in loop else ""
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


def _holds(item: Node, node: Node) -> bool:
    return item is node or (isinstance(item, Mapping) and any(value is node for value in item.values.values()))
