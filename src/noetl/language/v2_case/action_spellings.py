"""Other spellings of `then` lists of v2-case: `step`, `call`, `log` and `collect` beside tasks, `set` and `retry`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where
from noetl.language.v2_case.rule_spellings import without_scopes

_ACTIONS = ("set", "retry", "next", "step", "jump", "goto", "log", "call", "collect", "sink", "fail")
_RAISE = "raise RuntimeError(message)"
_FOLDS = {
    "append": (
        "(vars.{into} | default([], true)) + ({found} if {found} is sequence and {found} is not string else [{found}])"
    ),
    "push": "(vars.{into} | default([], true)) + [{found}]",
    "replace": "{found}",
}


def _name_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    for holder in ("then", "else"):
        held = node.get(holder)
        if isinstance(held, Mapping) and "fail" in held and "next" not in held and set(held.values) <= set(_ACTIONS):
            last = [key for key in held.values if key != "fail"] + ["fail"]  # assignments come before
            held = model.made_list([model.only_keys(held, key) for key in last], held)
            node = model.with_value(node, holder, held)
        if isinstance(held, Sequence):
            node = model.with_value(node, holder, _listed(held, rewriting))
    return node


def _listed(items: Sequence, rewriting: Rewriting) -> Sequence:
    found: list[Node] = []
    logs = 0
    for item in items:
        for action in _split_actions(item, rewriting):
            changed = _action(action, rewriting, logs) if isinstance(action, Mapping) and len(action) == 1 else action
            logs += isinstance(action, Mapping) and "log" in action
            found.append(changed)
    return model.with_items(items, found)


def _split_actions(item: Node, rewriting: Rewriting) -> Iterator[Node]:
    """One entry for each action; a task with its name next to its tool is nested under its name."""
    if not isinstance(item, Mapping) or len(item) < 2:
        yield item
        return
    name = item.get("name")
    if isinstance(name, Scalar) and isinstance(name.value, str) and ("kind" in item or "tool" in item):
        rewriting.note(item.keys["name"], "a task with name in a then list", f"- {name.value}: {{tool: …}}")
        inside = model.without_keys(item, "name")
        yield model.made_mapping(
            [(name.value, inside if "tool" in item else model.made_mapping([("tool", inside)], item))], item
        )
    elif all(key in _ACTIONS for key in item.values):
        rewriting.note(item, "several actions in one entry", "one entry for each")
        yield from (model.only_keys(item, key) for key in item.values)
    else:
        yield item


def _action(item: Mapping, rewriting: Rewriting, logs: int) -> Mapping:
    ((word, key, body),) = item.items()
    match word, body:
        case "step" | "jump" | "goto", Scalar() | Mapping() if not (isinstance(body, Mapping) and "tool" in body):
            target = body.get("step") if isinstance(body, Mapping) and len(body) == 1 else body
            rewriting.note(key, f'"{word}" in a then list', '"next"')
            listed = target if isinstance(target, Scalar) else model.made_list([body], body)
            return model.made_mapping([("next", listed)], item)
        case "set", Mapping() if "tool" not in body:
            return model.with_value(item, "set", without_scopes(body, rewriting))
        case "call", Mapping() if "kind" in body:
            rewriting.note(key, '"call" with kind', "call: {tool: {kind: …}}")
            return model.with_value(item, "call", model.made_mapping([("tool", body)], body))
        case "log", _ if not (isinstance(body, Mapping) and "tool" in body):
            rewriting.note(key, '"log" in a then list', "log: {tool: {kind: log, message: …}}")
            return _log_task(body, key, logs)
        case "fail", _ if (message := _message(body, key)) is not None:
            rewriting.note(key, '"fail" in then', "a task that fails: {kind: python, code: raise …}")
            return model.made_mapping([("fail", _failing_task(message, key))], item)
        case "collect", Mapping() if (written := _collect_target(body)) is not None:
            rewriting.note(key, '"collect" in a then list', '"set"')
            return model.made_mapping([("set", model.made_mapping([written], body))], item)
    return item


def _message(body: Node, key: Scalar) -> Node | None:
    """The message of `fail`: a text, `{message}` or `{reason}`, or nothing of its own."""
    if isinstance(body, Scalar):
        return body if isinstance(body.value, str) else model.made_text("the rule says fail", key)
    if isinstance(body, Mapping) and len(body) == 1:
        return next((value for name, value in body.values.items() if name in ("message", "reason", "error")), None)
    return None


def _failing_task(message: Node, key: Scalar) -> Mapping:
    args = model.made_mapping([("message", message)], key)
    entries: list[tuple[str, Node]] = [("kind", model.made_text("python", key)), ("args", args)]
    tool = model.made_mapping([*entries, ("code", model.made_text(_RAISE, key))], key)
    return model.made_mapping([("tool", tool)], key)


def _log_task(body: Node, key: Scalar, logs: int) -> Mapping:
    given: list[tuple[str, Node]] = [("message", body)]
    if isinstance(body, Mapping):
        given = [(name, value) for name, value in body.values.items() if name != "kind"]
    tool = model.made_mapping([("kind", model.made_text("log", key)), *given], body)
    return model.made_mapping(
        [(f"log_{logs + 1}" if logs else "log", model.made_mapping([("tool", tool)], body))], body
    )


def _collect_target(body: Mapping) -> tuple[str, Node] | None:
    """The variable that `{path, into, strategy}` writes, and its value."""
    path, into, strategy = (body.get(key) for key in ("path", "into", "strategy"))
    word = strategy.value if isinstance(strategy, Scalar) else "append"
    if not (isinstance(path, Scalar) and isinstance(into, Scalar) and isinstance(word, str) and word in _FOLDS):
        return None
    text = _FOLDS[word].format(into=into.value, found=f"response.{path.value}")
    return str(into.value), model.made_text(f"{{{{ {text} }}}}", path)


# Tasks of v2-case after a loop: a rule on `loop.done` is judged once by the server, which runs no tasks, so that they
# are those of a step after the loop (V2C-23).
_ASKED = re.compile(r"""["']loop\.done["']""")
_ENTERED = "{{ event.name == 'step.enter' }}"


def _move_tasks(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Every rule on `loop.done` with tasks leads to a step that runs them."""
    workflow = node.get("workflow")
    if not isinstance(workflow, Sequence):
        return node
    taken = {str(name.value) for step in workflow if isinstance(step, Mapping) for name in _names(step)}
    steps: list[Node] = []
    for step in workflow:
        changed, added = _without_tasks(step, taken, rewriting) if isinstance(step, Mapping) else (step, [])
        steps += [changed, *added]
    return model.with_value(node, "workflow", model.with_items(workflow, steps))


def _names(step: Mapping) -> list[Scalar]:
    name = step.get("step")
    return [name] if isinstance(name, Scalar) else []


def _without_tasks(step: Mapping, taken: set[str], rewriting: Rewriting) -> tuple[Mapping, list[Mapping]]:
    """The step, and those that run the tasks of its rules on `loop.done`."""
    case, names = step.get("case"), _names(step)
    if not isinstance(case, Sequence) or "loop" not in step or not names:
        return step, []
    rules: list[Node] = []
    added: list[Mapping] = []
    for rule in case:
        if not isinstance(rule, Mapping) or not _works_after_loop(rule):
            rules.append(rule)
            continue
        name = _free_name(f"{names[0].value}_after_loop", taken)
        rewriting.note(rule.keys["then"], "tasks after a loop", f'a step "{name}"')
        added.append(_following(step, rule, name))
        target = model.made_mapping([("next", model.made_text(name, rule.keys["then"]))], rule.keys["then"])
        rules.append(model.with_value(rule, "then", target))
    return model.with_value(step, "case", model.with_items(case, rules)), added


def _works_after_loop(rule: Mapping) -> bool:
    when, then = rule.get("when"), rule.get("then")
    if not isinstance(when, Scalar) or not _ASKED.search(str(when.value)):
        return False
    if isinstance(then, Mapping):
        return "sink" in then
    items = list(then) if isinstance(then, Sequence) else []
    return any(isinstance(held, Mapping) and "tool" in held for item in items for held in _task_list(item))


def _task_list(item: Node) -> list[Node]:
    return list(item.values.values()) if isinstance(item, Mapping) else []


def _following(step: Mapping, rule: Mapping, name: str) -> Mapping:
    """The step that runs the tasks of the rule and then takes the arcs of the looped step."""
    before = str(_names(step)[0].value)
    names = {"result": f"{before}.data", "response": f"{before}.result", "this": before}
    names |= {"loop.results": f"{before}.data", "event.result": f"{before}.data"}
    at, then = rule.keys["then"], model.with_names(rule.values["then"], names)
    entered = model.made_mapping([("when", model.made_text(_ENTERED, at)), ("then", then)], rule)
    entries: list[tuple[str, Node]] = [("step", model.made_text(name, at)), ("case", model.made_list([entered], rule))]
    if "next" in step and not _leads_on(then):
        entries.append(("next", step.values["next"]))
    return model.made_mapping(entries, rule)


def _leads_on(then: Node) -> bool:
    items = [then] if isinstance(then, Mapping) else list(then) if isinstance(then, Sequence) else []
    return any(isinstance(item, Mapping) and "next" in item for item in items)


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


SPELLINGS = (
    Spelling(
        id="case-then-list",
        where=Where.RULE,
        older="`then: [{log: …}, {step: …}, {call: {kind: …}}, {collect: …}]`",
        canonical="tasks of the step, `set_ctx`, and arcs",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-then-fail",
        where=Where.RULE,
        older="`then: {fail: …}`, `then: [{fail: …}]`",
        canonical="a rule with `do: fail`, or a task that raises the message",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-then-collect",
        where=Where.RULE,
        older="`then: [{collect: {path, into, strategy}}]`",
        canonical="`set_ctx` with the folded value",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
    Spelling(
        id="case-loop-done",
        where=Where.DOCUMENT,
        older="tasks in a rule on `loop.done`",
        canonical="a step after the loop",
        dialects=(V2_CASE,),
        rewrite=_move_tasks,
    ),
)
