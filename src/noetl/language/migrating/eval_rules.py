"""`eval` as policy rules: `expr` becomes `when`, and the old default for errors is written out (MIG-02, C-03)."""

from __future__ import annotations

from noetl.base.durations import seconds
from noetl.base.source import is_template
from noetl.language.migrating.document_editor import item_id, key_id
from noetl.language.migrating.eval_vars import VarPlacement
from noetl.language.migrating.fragments import (
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    Piece,
    literal,
)
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import PolicySyntax, RuleSyntax, TaskSyntax, Then

ERROR = "{{ outcome.status == 'error' }}"
FAIL_ON_ERROR = Item(
    Mapped(
        (
            FragmentEntry("when", literal(ERROR)),
            FragmentEntry("then", Mapped((FragmentEntry("do", Literal("fail")),), flow=True)),
        )
    )
)
CONTINUE = Item(
    Mapped(
        (
            FragmentEntry(
                "else", Mapped((FragmentEntry("then", Mapped((FragmentEntry("do", Literal("continue")),), flow=True)),))
            ),
        )
    )
)
_OPTIONS = ("to", "attempts", "delay", "max_delay", "jitter", "on_exhausted")


class EvalRules:
    """The rules of one step's tasks. `variables` say where its variables went."""

    def __init__(self, copier: Copier, variables: VarPlacement, notes: Notes) -> None:
        self.copier = copier
        self.variables = variables
        self.notes = notes

    def rules(self, task: TaskSyntax, policy: PolicySyntax) -> FragmentEntry:
        items = [self._rule(task, rule) for rule in policy.rules]
        caught = any(rule.when is None or _is_any_error(rule.when) for rule in policy.rules)
        if not policy.rules or policy.rules[-1].when is not None:  # what v2-eval did with the rest (V2E-04)
            items += [CONTINUE] if caught else [FAIL_ON_ERROR, CONTINUE]
        origin = key_id(task.node.keys["eval"]) if isinstance(task.node, Mapping) and "eval" in task.node else ""
        return FragmentEntry("rules", ListFragment(tuple(items)), origin)

    def _rule(self, task: TaskSyntax, rule: RuleSyntax) -> Item:
        then = FragmentEntry("then", self._then(task, rule.then))
        if rule.when is None:
            owner = rule.node if isinstance(rule.node, Mapping) else None
            origin = key_id(owner.keys["else"]) if owner and "else" in owner else ""
            return Item(Mapped((FragmentEntry("else", Mapped((then,)), origin),)), item_id(rule.node))
        assert isinstance(rule.node, Mapping)
        when = self.copier.renamed_entry(rule.node, "expr", "when")
        return Item(Mapped((when, then)), item_id(rule.node))

    def _then(self, task: TaskSyntax, then: Then) -> Mapped:
        """What the rule does, in v10's order: the directive, its options, what it writes."""
        node = then.node
        assert isinstance(node, Mapping)
        entries: list[FragmentEntry] = []
        for key in ("do", "to", "attempts", "backoff", *_OPTIONS[2:]):
            if key == "backoff" and then.backoff == "none":
                entries.append(
                    FragmentEntry(key, Literal("none"), key_id(node.keys[key]))
                    if key in node
                    else FragmentEntry(key, Literal("none"))
                )
            elif key in node:
                entries.append(self.copier.renamed_entry(node, key, key))
        writes = self._writes(task, then, node)
        return Mapped((*entries, *writes), flow=not writes or all(entry.key != "set_iter" for entry in writes))

    def _writes(self, task: TaskSyntax, then: Then, node: Mapping) -> list[FragmentEntry]:
        iteration, execution = self._values(node, "set_iter"), self._values(node, "set_ctx")
        for action in ("set_vars", "set_shared"):
            for entry, name in self._moved(node, action):
                (iteration if self.variables.homes[name].startswith("iter.") else execution).append(entry)
        if then.set_prev is not None:
            iteration.append(
                FragmentEntry(previous_name(task), self.copier.value(then.set_prev, node.keys["set_prev"]))
            )
        written = []
        for key, values, older in (
            ("set_iter", iteration, ("set_vars", "set_prev")),
            ("set_ctx", execution, ("set_shared", "set_vars")),
        ):
            if not values:
                continue
            origin = next((key_id(node.keys[name]) for name in (key, *older) if name in node), "")
            written.append(FragmentEntry(key, Mapped(tuple(values), flow=self._was_flow(node, (key, *older))), origin))
        return written

    def _was_flow(self, node: Mapping, keys: tuple[str, ...]) -> bool:
        return all(self.copier.old.is_flow(node.values[key]) for key in keys if isinstance(node.get(key), Mapping))

    def _values(self, node: Mapping, action: str) -> list[FragmentEntry]:
        values = node.get(action)
        if not isinstance(values, Mapping):
            return []
        return [self.copier.renamed_entry(values, key, key) for key in values.values]

    def _moved(self, node: Mapping, action: str) -> list[tuple[FragmentEntry, str]]:
        """The values of set_vars and set_shared under their new names; the operation of a shared one is the loop's."""
        values = node.get(action)
        if not isinstance(values, Mapping):
            return []
        moved = []
        for key, key_node, value in values.items():
            inner: Node = value
            if action == "set_shared" and isinstance(value, Mapping) and "value" in value:
                inner = value.values["value"]
            name = key.partition(".")[0] if action == "set_vars" else key
            home = self.variables.homes[name].split(".", 1)[1] + key.removeprefix(name)
            piece: Piece = self.copier.value(inner, key_node)
            moved.append((FragmentEntry(home, piece, key_id(key_node)), name))
        return moved


def previous_name(task: TaskSyntax) -> str:
    """The key of `iter` that stands in for `set_prev`."""
    return f"{task.name or 'task'}_prev"


def _is_any_error(when: Scalar) -> bool:
    text = "".join(str(when.value).split()).replace('"', "'")
    return text == "".join(ERROR.split())


# Conditions and limits of a whole step as v10 writes them: admission rules and lifecycle (MIG-01, C-02, C-30).


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
