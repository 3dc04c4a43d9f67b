"""Repairs of conditions: on steps, on tasks, in rules and on arcs."""

from __future__ import annotations

from noetl.base.source import is_template
from noetl.language.migrating.repairs.steps import task_list
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting

_WORDS = {"yes": True, "on": True, "no": False, "off": False}
_ACTIONS = ("do", "allow", "park", "set_iter", "set_ctx", "set_vars", "set", "to", "attempts", "delay", "backoff")


def write_admission(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's `when`: a match lets the token in, anything else does not."""
    when, spec = node.get("when"), node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    if not isinstance(when, Scalar) or "step" not in node or (isinstance(policy, Mapping) and "admit" in policy):
        return node
    rewriting.note(node.keys["when"], '"when" of a step', "spec.policy.admit.rules")
    key = node.keys["when"]
    yes, no = (model.made_mapping([("allow", model.made_text(value, when))], when) for value in (True, False))
    rules = [
        model.made_mapping([("when", when), ("then", yes)], when),
        model.made_mapping([("else", model.made_mapping([("then", no)], when))], when),
    ]
    admit = model.made_mapping([("rules", model.made_list(rules, when))], when)
    held = policy if isinstance(policy, Mapping) else model.made_mapping((), when)
    outer = spec if isinstance(spec, Mapping) else model.made_mapping((), when)
    outer = model.with_value(outer, "policy", model.with_value(held, "admit", admit))
    return model.with_value(model.without_keys(node, "when"), "spec", outer, key)


def write_choose(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A task with `when` runs or is passed over: a choice of one."""
    tasks = task_list(node)
    bare = [_guarded(task) for task in tasks]
    if all(one is None for one in bare) or "tool" not in node:
        return node
    written: list[Node] = []
    for task, guarded in zip(tasks, bare, strict=True):
        if guarded is None or not isinstance(task, Mapping):
            written.append(task)
            continue
        when, inner = guarded
        rewriting.note(when, '"when" of a task', "choose: [{when, then: [task]}]")
        branch = model.made_mapping([("when", when), ("then", model.made_list([inner], task))], task)
        written.append(model.made_mapping([("choose", model.made_list([branch], task))], task))
    return model.with_value(node, "tool", model.made_list(written, node.values["tool"]))


def _guarded(task: Node) -> tuple[Scalar, Mapping] | None:
    """The condition of a task and the task without it; a label stays around it."""
    if not isinstance(task, Mapping):
        return None
    when = task.get("when")
    if isinstance(when, Scalar) and "kind" in task:
        return when, model.without_keys(task, "when")
    if len(task) == 1 and "choose" not in task:
        ((label, _, inside),) = task.items()
        inner = _guarded(inside) if isinstance(inside, Mapping) and "kind" in inside else None
        return (inner[0], model.with_value(task, label, inner[1])) if inner is not None else None
    return None


def order_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """One `else` goes to the end of its rules."""
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    rules = policy.get("rules") if isinstance(policy, Mapping) else None
    if not isinstance(rules, Sequence) or not isinstance(policy, Mapping) or not isinstance(spec, Mapping):
        return node
    otherwise = [rule for rule in rules if isinstance(rule, Mapping) and "else" in rule]
    if len(otherwise) != 1 or rules.items[-1] is otherwise[0]:
        return node
    rewriting.note(otherwise[0].keys["else"], "else before other rules", "else at the end")
    ordered = [*(rule for rule in rules if rule is not otherwise[0]), otherwise[0]]
    return model.with_value(
        node,
        "spec",
        model.with_value(spec, "policy", model.with_value(policy, "rules", model.made_list(ordered, rules))),
    )


def name_expression(node: Mapping, rewriting: Rewriting) -> Mapping:
    if "expr" in node and "when" not in node:
        rewriting.note(node.keys["expr"], '"expr"', '"when"')
        node = model.with_key(node, "expr", "when")
    return node


def move_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Actions beside the condition belong under `then`."""
    actions = [key for key in node.values if key in _ACTIONS]
    if "when" not in node or "then" in node or "else" in node or not actions:
        return node
    rewriting.note(node.keys[actions[0]], f'"{actions[0]}" beside when', "then: {…}")
    values = {key: node.values[key] for key in actions}
    then = Mapping({key: node.keys[key] for key in actions}, values, node.span, node.path, made=True)
    return model.with_value(model.without_keys(node, *actions), "then", then, node.keys[actions[0]])


def write_braces(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A condition that is plain text is an expression without its braces."""
    when = node.get("when")
    if not isinstance(when, Scalar) or not isinstance(when.value, str) or is_template(when.value):
        return node
    text = when.value.strip()
    if not text or text.lower() in ("true", "false"):
        return node
    if text.lower() in _WORDS:
        written = model.made_text(_WORDS[text.lower()], when)
    else:
        inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else text
        written = model.made_text(f"{{{{ {inner} }}}}", when)
    rewriting.note(when, "a condition that is plain text", str(written.value))
    return model.with_value(node, "when", written)
