"""Repairs of `case` beside a pipeline: what a rule runs after every success are the last tasks of the pipeline."""

from __future__ import annotations

from noetl.base.template_names import template
from noetl.language.migrating.eval_vars import prefix
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.v2_case.migration.guards import DONE, read_guard

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
    rules = [rest if item is rule else item for item in case if item is not rule or _leads(rest)]
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
    """What is left of `then`: where it leads, and what it sets."""
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


def _leads(rule: Mapping) -> bool:
    then = rule.get("then")
    return isinstance(then, Mapping) and len(then) > 0


def _name_of(item: Node) -> str | None:
    """What a task of a pipeline is called: by its name, or by its label."""
    if not isinstance(item, Mapping):
        return None
    name = item.get("name")
    if isinstance(name, Scalar):
        return str(name.value)
    return next(iter(item.values)) if len(item) == 1 else None
