"""Steps of v2-eval as v10: their variables, their `eval` rules, and their conditions and limits (MIG-02).

Variables (V2E-05, V2E-07): v10 has no step-run scope. A variable that only the pipeline reads becomes part of `iter`;
one that routing reads too, or that outlives an iteration, becomes a key of `ctx` that carries its step's name.

Rules: `eval` becomes policy rules, `expr` becomes `when`, and the old default for errors is written out (C-03).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.durations import seconds
from noetl.base.template_names import paths
from noetl.language.migrating import fragments
from noetl.language.migrating.document_editor import item_id, key_id, origin_of
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, ListFragment, Literal, Mapped, Piece
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import PolicySyntax, RuleSyntax, StepSyntax, Sugar, TaskSyntax, Then


class VarPlacement(msgspec.Struct, frozen=True):
    """`homes` maps each variable to its new path (`iter.page`, `ctx.load_page`); `reducers` are its shared ones."""

    homes: dict[str, str]
    reducers: dict[str, str]

    @property
    def names(self) -> dict[str, str]:
        return {f"vars.{name}": home for name, home in self.homes.items()}


def step_vars(step: StepSyntax, notes: Notes) -> VarPlacement:
    written = _roots(_written(step, "set_vars"))
    shared = _written(step, "set_shared")
    routed = {path[1] for path in _reads(step.router.node if step.router else None) if len(path) > 1}
    read = {path[1] for path in _reads(step.node) if len(path) > 1}
    _check(step, set(written), set(shared), notes)
    for name in (name for name in written if is_template(name)):
        notes.blocked(written[name], "the name of this variable is computed", "give it one, or write set_ctx")
    homes: dict[str, str] = {}
    for name in dict.fromkeys([*written, *shared, *sorted(read)]):
        # The next iteration may read the variable, so it must outlive this one.
        outlives = step.loop is not None and name in read
        if name in shared or name in routed or outlives or name not in written:
            homes[name] = f"ctx.{prefix(step.name)}_{name}"
        else:
            homes[name] = f"iter.{_free_name(step, name)}"
    for name, node in {**shared, **written}.items():
        message = f"the step variable {name} is now {homes[name]}"
        if homes[name].startswith("ctx."):
            message += ", which stays after the step"
        notes.changed(node, message)
    reducers = {homes[name].removeprefix("ctx."): _operation(step, name) for name in shared}
    return VarPlacement(homes, reducers)


def prefix(name: str) -> str:
    """A step's name as the beginning of a key."""
    return re.sub(r"\W+", "_", name).strip("_") or "step"


def _check(step: StepSyntax, written: set[str], shared: set[str], notes: Notes) -> None:
    if any(len(path) == 1 for path in _reads(step.node)):
        notes.blocked(step, "vars is read as a whole, and v10 has no vars", "name the variables that are meant")
    for name in sorted(written & shared):
        message = f"{name} is written by set_vars and by set_shared"
        notes.blocked(step, message, "give them two names; set_shared becomes loop.spec.policy.reducers")
    if shared and step.loop is None:
        notes.blocked(step, "set_shared outside a loop has nothing to fold", "write set_ctx")


def _written_thens(step: StepSyntax) -> Iterator[Then]:
    for task in step.tasks:
        if not isinstance(task, Sugar) and task.policy is not None:
            yield from (rule.then for rule in task.policy.rules)


def _written(step: StepSyntax, action: str) -> dict[str, Scalar]:
    """The variables an action writes anywhere in the step, each with its first place."""
    found: dict[str, Scalar] = {}
    for then in _written_thens(step):
        values: Mapping | None = getattr(then, action)
        for key, key_node, _ in values.items() if values is not None else ():
            found.setdefault(key, key_node)
    return found


def _roots(written: dict[str, Scalar]) -> dict[str, Scalar]:
    """The variables that dotted paths lead into: `page.number` writes a part of `page` (SCOPE-04)."""
    # Reversed, so that of one root the first place stays.
    return {key.partition(".")[0]: node for key, node in reversed(written.items())}


def _operation(step: StepSyntax, name: str) -> str:
    for then in _written_thens(step):
        value = then.set_shared.get(name) if then.set_shared is not None else None
        operation = value.get("op") if isinstance(value, Mapping) else None
        if isinstance(operation, Scalar):
            return str(operation.value)
    return "last"


def _reads(node: Node | None) -> Iterator[tuple[str, ...]]:
    for scalar in scalars(node) if node is not None else ():
        if isinstance(scalar.value, str):
            yield from (path for path in paths(scalar.value) if path[0] == "vars")


def _free_name(step: StepSyntax, name: str) -> str:
    """The name itself, unless the pipeline already keeps something else under it in `iter`."""
    return f"vars_{name}" if name in _written(step, "set_iter") else name


ERROR = "{{ outcome.status == 'error' }}"
FAIL_ON_ERROR = Item(fragments.mapped({"when": fragments.literal(ERROR), "then": fragments.from_data({"do": "fail"})}))
CONTINUE = Item(fragments.mapped({"else": fragments.mapped({"then": fragments.from_data({"do": "continue"})})}))
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
        # Write out the v2-eval default for unmatched outcomes (V2E-04).
        if not policy.rules or policy.rules[-1].when is not None:
            # Written out: without a policy v10 fails on an error as well, but not once there are other rules.
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
        """The action of the rule, in v10's order: the directive, its options, its writes."""
        node = then.node
        assert isinstance(node, Mapping)
        entries: list[FragmentEntry] = []
        for key in ("do", "to", "attempts", "backoff", *_OPTIONS[2:]):
            # v2-eval says `fixed` for a constant delay.
            if key == "backoff" and then.backoff == "none":
                entries.append(FragmentEntry(key, Literal("none"), origin_of(node, key)))
            elif key in node:
                entries.append(self.copier.renamed_entry(node, key, key))
        writes = self._writes(task, then, node)
        return Mapped((*entries, *writes), flow=not writes or all(entry.key != "set_iter" for entry in writes))

    def _writes(self, task: TaskSyntax, then: Then, node: Mapping) -> list[FragmentEntry]:
        iteration, execution = self._values(node, "set_iter"), self._values(node, "set_ctx")
        for action in ("set_vars", "set_shared"):
            for entry, name in self._moved_values(node, action):
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
        return self.copier.renamed_entries(values)

    def _moved_values(self, node: Mapping, action: str) -> list[tuple[FragmentEntry, str]]:
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
            # Without the namespace, which `set_iter` and `set_ctx` imply; a dotted path below it stays.
            home = self.variables.homes[name].split(".", 1)[1] + key.removeprefix(name)
            piece: Piece = self.copier.value(inner, key_node)
            moved.append((FragmentEntry(home, piece, key_id(key_node)), name))
        return moved


def previous_name(task: TaskSyntax) -> str:
    """The key of `iter` that replaces `set_prev`."""
    return f"{task.name or 'task'}_prev"


def _is_any_error(when: Scalar) -> bool:
    text = "".join(str(when.value).split()).replace('"', "'")
    return text == "".join(ERROR.split())


# Conditions and limits of a whole step as v10 writes them: admission rules and lifecycle (MIG-01, C-02, C-30).


def admit_entry(copier: Copier, step: Mapping) -> FragmentEntry:
    """A step's `when`: match allows, else denies. One that is always true only allows."""
    when = step.values["when"]
    always = isinstance(when, Scalar) and str(when.value).replace(" ", "").lower() in ("true", "{{true}}")
    rules = [_else_rule(allow=always)]
    if not always:
        condition = copier.renamed_entry(step, "when", "when")
        rules.insert(0, Item(fragments.mapped({"when": condition.value, "then": fragments.from_data({"allow": True})})))
    rule_list = FragmentEntry("rules", ListFragment(tuple(rules)))
    return FragmentEntry("admit", Mapped((rule_list,)), key_id(step.keys["when"]))


def lifecycle_entry(copier: Copier, spec: Mapping, notes: Notes) -> FragmentEntry:
    """A step's `spec.timeout`, in seconds."""
    node = spec.values["timeout"]
    value: FragmentEntry = copier.renamed_entry(spec, "timeout", "timeout_s")
    if isinstance(node, Scalar) and isinstance(node.value, str) and not is_template(node.value):
        length = seconds(node.value)
        value = FragmentEntry(
            "timeout_s", fragments.literal(int(length) if length.is_integer() else length), value.origin
        )
    elif isinstance(node, Scalar) and isinstance(node.value, str):
        notes.changed(node, "the step's timeout is a template, and lifecycle.timeout_s counts seconds")
    return FragmentEntry("lifecycle", Mapped((value,), flow=True))


def _else_rule(*, allow: bool) -> Item:
    return Item(fragments.mapped({"else": fragments.mapped({"then": fragments.from_data({"allow": allow})})}))
