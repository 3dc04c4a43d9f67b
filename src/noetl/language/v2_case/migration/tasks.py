"""Tasks of a migrated v2-case step: its call, its sinks and the tasks of its rules, in one pipeline.

A sink is a storing task after the call. `result`, `response` and `this` become the call's view by its name, since in
a pipeline other tasks may come after it.

Also the repair of `case` beside a pipeline: the tasks of a rule after every success become the last tasks of the
pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from noetl.base.diagnostics import is_template
from noetl.base.template_names import template
from noetl.language.migrating.document_editor import item_id, key_id, origin_of
from noetl.language.migrating.eval_rules import prefix
from noetl.language.migrating.fragments import (
    Copier,
    Entry,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    Piece,
    from_data,
    literal,
    mapped,
    task_entries,
)
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.playbook import CaseRuleSyntax, OnEvent, RetrySyntax, StepSyntax, TaskSyntax
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.v2_case.migration.guards import DONE, read_guard


def call_name(step: StepSyntax) -> str:
    """The name a step's only task has in v10 as well (TASK-03)."""
    return f"{prefix(step.name)}_task"


def sink_name(step: StepSyntax, rule: CaseRuleSyntax | RetrySyntax | None = None) -> str:
    """The name of a sink in v2-case (C-43), so that the log of the migrated playbook has the same tasks."""
    part = ""
    if isinstance(rule, CaseRuleSyntax):
        rules = step.case.rules if step.case else ()
        part = f"case_{next(index for index, one in enumerate(rules) if one is rule)}_"
    elif rule is not None:
        part = f"retry_{next(index for index, one in enumerate(step.retry) if one is rule)}_"
    return f"{prefix(step.name)}_{part}sink"


def pipeline_names(step: StepSyntax) -> dict[str, str]:
    """The meaning of names in `then` blocks within the pipeline of the call. The step's own name is its call there:
    v10 gives a step its result when the pipeline has ended."""
    call = call_name(step)
    return {"result": f"{call}.data", "response": f"{call}.result", "this": call, **own_names(step, call)}


def own_names(step: StepSyntax, meaning: str) -> dict[str, str]:
    """The step's own name, unless one of its tasks is called so."""
    rules = step.case.rules if step.case is not None else ()
    tasks = {action.name for rule in rules for action in rule.actions if isinstance(action, TaskSyntax)}
    return {} if step.name in tasks or not step.name.isidentifier() else {step.name: meaning}


class TaskNames:
    """Task names that are free in one pipeline."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def free(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


def plain_task(
    copier: Copier, task: TaskSyntax, name: str, label: bool = True, policy: Collection[FragmentEntry] = ()
) -> Mapped:
    """A task of a rule or a sink in v10's form. Its args may have stood beside its tool."""
    replaced = {}
    args = task.inputs.get("args")
    node = task.node
    assert isinstance(node, Mapping)
    if args is not None and args is not node.get("args"):
        piece = args_piece(copier, args) if isinstance(args, Mapping) else copier.value(args)
        replaced["args"] = FragmentEntry("args", piece)
    origin = key_id(task.name_node) if label and task.name_node is not None else ""
    entries = task_entries(copier, task, FragmentEntry("name", literal(name), origin), policy, replaced)
    return Mapped(tuple(entries), flow=copier.old.is_flow(node) and not replaced and not policy)


def rule_tasks(
    copier: Copier, step: StepSyntax, rule: CaseRuleSyntax, tasks: tuple[TaskSyntax, ...], names: TaskNames
) -> list[Item]:
    """The tasks of one case rule, each under a name that is free."""
    return [
        Item(plain_task(copier, task, names.free(task.name or sink_name(step, rule))), rule_task_origin(rule, task))
        for task in tasks
    ]


def rule_task_origin(rule: CaseRuleSyntax, task: TaskSyntax) -> str:
    """The element that a task of a rule was written as."""
    if task.name_node is not None:
        return f"i{task.name_node.span.start}"
    then = rule.node.get("then") or rule.node.get("else") if isinstance(rule.node, Mapping) else None
    # The only task without a name is the sink of a `then` that is a mapping.
    return origin_of(then, "sink") if isinstance(then, Mapping) else ""


def args_piece(copier: Copier, args: Mapping) -> Piece:
    """A mapping of args that may come from two places of the document."""
    return Mapped(tuple(copier.renamed_entries(args)), flow=copier.old.is_flow(args))


def setting_task(name: str, values: Piece) -> Item:
    """A noop whose only purpose is to write `ctx` between two other tasks."""
    return noop_task(name, [Item(mapped({"else": mapped({"then": mapped({"set_ctx": values})})}))])


def keeping_task(name: str, call: str) -> Item:
    """A noop that makes the call's payload the step's result again."""
    payload = literal(f"{{{{ {call}.data }}}}")
    return Item(mapped({"name": literal(name), "kind": Literal("noop"), "args": payload}, flow=True))


def failing_task(name: str, error: str) -> Item:
    """A noop that fails its step with an earlier error: the effect of an error without a transition."""
    rule: dict[str, object] = {"else": {"then": {"do": "fail", "error": template(error)}}}
    return Item(from_data({"name": name, "kind": "noop", "spec": {"policy": {"rules": [rule]}}}))


def choosing_task(name: str, when: str, tasks: list[Item]) -> Item:
    """`choose` with one branch: tasks that only run under a condition."""
    branch = Item(mapped({"when": literal(when), "then": ListFragment(tuple(tasks))}))
    return Item(mapped({"name": literal(name), "choose": ListFragment((branch,))}))


def merged_args(copier: Copier, step: StepSyntax, call: TaskSyntax) -> dict[str, FragmentEntry]:
    """The step's args under the tool's own: v2-case handed both to the tool (V2C-03). Args of the token override
    those of the step; args that may read an iteration are unchanged. A noop received none."""
    if step.args is None or call.kind == "noop":
        return {}
    own: Node | None = call.inputs.get("args")
    outer = [key for key in step.args.values if not (isinstance(own, Mapping) and key in own)]
    values = []
    for key in outer:
        node = step.args.values[key]
        as_written = step.loop is not None and any(is_template(str(scalar.value)) for scalar in scalars(node))
        read = f"args.{key}" if key.isidentifier() else f"args[{json.dumps(key)}]"
        values.append(
            FragmentEntry(key, copier.value(node, step.args.keys[key]) if as_written else literal(template(read)))
        )
    if isinstance(own, Mapping):
        values += copier.renamed_entries(own)
    return {"args": FragmentEntry("args", Mapped(tuple(values), flow=True))}


# Tasks that only decide: noops whose policy rules jump, set or fail, and the parts of such rules.


def set_iter_entry(values: dict[str, object]) -> FragmentEntry:
    """The data that a rule keeps in iter."""
    return FragmentEntry("set_iter", from_data(values))


def policy_rule(
    when: str | None,
    do: str,
    *,
    to: str = "",
    error: str = "",
    set_iter: dict[str, object] | None = None,
    set_ctx: Mapped | None = None,
) -> Item:
    """One rule of a policy; the one without a condition is else."""
    then = [FragmentEntry("do", Literal(do))]
    then += [FragmentEntry("to", literal(to))] if to else []
    then += [FragmentEntry("error", literal(error))] if error else []
    then += [set_iter_entry(set_iter)] if set_iter else []
    then += [FragmentEntry("set_ctx", set_ctx)] if set_ctx is not None else []
    entry = FragmentEntry("then", Mapped(tuple(then), flow=True))
    if when is None:
        return Item(Mapped((FragmentEntry("else", Mapped((entry,), flow=True)),), flow=True))
    return Item(Mapped((FragmentEntry("when", literal(template(when))), entry)))


def policy_entry(rules: Collection[Item]) -> FragmentEntry:
    """The policy of a task, as a key of its spec."""
    return FragmentEntry("policy", Mapped((FragmentEntry("rules", ListFragment(tuple(rules))),)))


def noop_task(name: str, rules: Collection[Item], args: object = None) -> Item:
    """A task that does nothing but what its rules say; `args` is its result."""
    entries = [FragmentEntry("name", literal(name)), FragmentEntry("kind", Literal("noop"))]
    if isinstance(args, Literal | Mapped):
        entries.append(FragmentEntry("args", args))
    if rules:
        entries.append(FragmentEntry("spec", Mapped((policy_entry(rules),))))
    return Item(Mapped(tuple(entries)))


def name_of(item: Item) -> str:
    """The name of a task that has been written."""
    assert isinstance(item.value, Mapped)
    name = next(entry.value for entry in item.value.entries if isinstance(entry, FragmentEntry) and entry.key == "name")
    assert isinstance(name, Literal)
    return name.text


# Parts of a v2-case step that only change their spelling: its loop and its event handlers.

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
            # on_error is the failure mode of the step (`_spec`), and of two modes the outer one counts.
            elif key != "on_error" and not (key == "mode" and options):
                options.append(copier.renamed_entry(spec, key, key))
    if options:
        origin = origin_of(loop, "spec")
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
    entries: list[Entry] = copier.entries(block, ("spec",))
    entries.append(FragmentEntry("handlers", listed, key_id(block.keys["handlers"])))
    return FragmentEntry("on_event", Mapped(tuple(entries)), key_id(key))


def _handler(copier: Copier, node: object, tasks: tuple[object, ...]) -> Mapped:
    assert isinstance(node, Mapping)
    items = [Item(plain_task(copier, task, task.name or "task")) for task in tasks if isinstance(task, TaskSyntax)]
    then = FragmentEntry("then", ListFragment(tuple(items)), key_id(node.keys["then"]))
    return Mapped((*copier.entries(node, ("event", "when")), then))


_DOING = ("tool", "args")


def with_tasks_of_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`node` with the tasks of its rule on `call.done` at the end of its pipeline. Several such rules, or a condition
    besides the event, need a person."""
    case, tool = node.get("case"), node.get("tool")
    if not isinstance(case, Sequence) or not isinstance(tool, Sequence):
        return node
    working = [rule for rule in case if isinstance(rule, Mapping) and _tasks_of(rule)]
    last = _name_of(tool.items[-1]) if len(tool) else None
    if len(working) != 1 or last is None or not _is_after_success(working[0]):
        return node
    rule = working[0]
    names = {"result": f"{last}.data", "response": f"{last}.result", "this": last, "vars": "ctx"}
    rewriting.note(rule.keys["then"], "tasks of a case rule", "the last tasks of tool")
    tasks = [model.with_names(task, names) for task in _tasks_of(rule)]
    rest = model.with_value(rule, "then", _without_tasks(rule.values["then"]))
    rules = [rest if item is rule else item for item in case if item is not rule or _leads_on(rest)]
    node = model.with_value(
        node, "tool", model.made_list([*tool, *tasks, _result_task(node, last, rule.keys["then"])], tool)
    )
    return model.with_value(node, "case", model.with_items(case, rules))


def _result_task(step: Mapping, last: str, at: Scalar) -> Mapping:
    """A task that makes the result of the pipeline's own last task that of the step again."""
    named = step.get("step")
    name = f"{prefix(str(named.value)) if isinstance(named, Scalar) else 'step'}_result"
    values = {"name": name, "kind": "noop", "args": template(f"{last}.data")}
    return model.made_mapping([(key, model.made_text(value, at)) for key, value in values.items()], at)


def _is_after_success(rule: Mapping) -> bool:
    when = rule.get("when")
    guard = read_guard(when) if isinstance(when, Scalar) else None
    return guard is not None and guard.is_plain and guard.only(DONE)


def _tasks_of(rule: Mapping) -> list[Mapping]:
    """The tasks under `then`, in v10's form."""
    then = rule.get("then")
    if isinstance(then, Mapping):
        sink = then.get("sink")
        return [_task("sink", sink)] if isinstance(sink, Mapping) and isinstance(sink.get("tool"), Mapping) else []
    found = []
    for item in then if isinstance(then, Sequence) else ():
        label, held = next(iter(item.values.items())) if isinstance(item, Mapping) and len(item) == 1 else ("", None)
        if isinstance(held, Mapping) and isinstance(held.get("tool"), Mapping) and not set(held.values) - set(_DOING):
            found.append(_task(label, held))
    return found


def _task(label: str, held: Mapping) -> Mapping:
    """`{tool: {kind, …}, args}` as one task with a name."""
    tool = held.values["tool"]
    assert isinstance(tool, Mapping)
    keys = {"name": model.made_text("name", held.keys["tool"]), **tool.keys}
    values: dict[str, Node] = {"name": model.made_text(label, held.keys["tool"]), **tool.values}
    task = Mapping(keys, values, tool.span, tool.path, made=True)
    return model.with_value(task, "args", held.values["args"], held.keys["args"]) if "args" in held else task


def _without_tasks(then: Node) -> Node:
    """The rest of `then`: its targets and its assignments."""
    if isinstance(then, Mapping):
        return model.made_mapping([(key, value) for key, _, value in then.items() if key != "sink"], then)
    if not isinstance(then, Sequence):
        return then
    kept = [
        (key, value)
        for item in then
        if isinstance(item, Mapping)
        for key, _, value in item.items()
        if not (isinstance(value, Mapping) and "tool" in value)
    ]
    return model.made_mapping(kept, then)


def _leads_on(rule: Mapping) -> bool:
    then = rule.get("then")
    return isinstance(then, Mapping) and len(then) > 0


def _name_of(item: Node) -> str | None:
    """The name of a task in a pipeline: its name or its label."""
    if not isinstance(item, Mapping):
        return None
    name = item.get("name")
    if isinstance(name, Scalar):
        return str(name.value)
    return next(iter(item.values)) if len(item) == 1 else None
