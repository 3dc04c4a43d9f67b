"""Repairs of conditions: on steps, on tasks, in rules and on arcs; and of `eval`, whose rules become a policy with
v2-eval's default for unmatched errors written out."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import is_template
from noetl.base.template_names import as_one_expression, has_text_around, paths, template
from noetl.language.migrating.eval_rules import prefix
from noetl.language.migrating.repairs.steps import task_list
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner, scalars
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
    outer = spec if isinstance(spec, Mapping) else model.made_mapping((), when)
    outer = model.with_path(outer, ("policy", "admit"), admit, when)
    return model.with_value(model.without_keys(node, "when"), "spec", outer, key)


def write_choose(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A task with `when` runs or is passed over: a choice of one."""
    tasks = task_list(node)
    bare = [_task_condition(task) for task in tasks]
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


def _task_condition(task: Node) -> tuple[Scalar, Mapping] | None:
    """The condition of a task and the task without it; a label stays around it."""
    if not isinstance(task, Mapping):
        return None
    when = task.get("when")
    if isinstance(when, Scalar) and "kind" in task:
        return when, model.without_keys(task, "when")
    if len(task) == 1 and "choose" not in task:
        ((label, _, inside),) = task.items()
        inner = _task_condition(inside) if isinstance(inside, Mapping) and "kind" in inside else None
        return (inner[0], model.with_value(task, label, inner[1])) if inner is not None else None
    return None


def order_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """One `else` goes to the end of its rules."""
    rules = inner(node, "spec", "policy", "rules")
    if not isinstance(rules, Sequence):
        return node
    otherwise = [rule for rule in rules if isinstance(rule, Mapping) and "else" in rule]
    if len(otherwise) != 1 or rules.items[-1] is otherwise[0]:
        return node
    rewriting.note(otherwise[0].keys["else"], "else before other rules", "else at the end")
    ordered = [*(rule for rule in rules if rule is not otherwise[0]), otherwise[0]]
    return model.with_path(node, ("spec", "policy", "rules"), model.made_list(ordered, rules), rules)


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
    then = model.only_keys(node, *actions)
    return model.with_value(model.without_keys(node, *actions), "then", then, node.keys[actions[0]])


def write_braces(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A condition that is plain text is an expression without its braces."""
    when = node.get("when")
    if not isinstance(when, Scalar) or not isinstance(when.value, str):
        return node
    text = when.value.strip()
    if is_template(text):
        one = as_one_expression(text) if has_text_around(text) else None
        if one is None:
            return node
        rewriting.note(when, "a condition with text beside its braces", template(one))
        return model.with_value(node, "when", model.made_text(template(one), when))
    if not text or text.lower() in ("true", "false"):
        return node
    if text.lower() in _WORDS:
        written = model.made_text(_WORDS[text.lower()], when)
    else:
        # Single braces: a template was meant, which has double ones.
        inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else text
        written = model.made_text(f"{{{{ {inner} }}}}", when)
    rewriting.note(when, "a condition that is plain text", str(written.value))
    return model.with_value(node, "when", written)


def write_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    entries, spec = node.get("eval"), node.get("spec")
    if not isinstance(entries, Sequence) or (isinstance(spec, Mapping) and "policy" in spec):
        return node
    rules = [_rule(entry) for entry in entries]
    if any(rule is None for rule in rules):
        return node
    rewriting.note(node.keys["eval"], '"eval"', "spec.policy.rules")
    written: list[Node] = [rule for rule in rules if rule is not None]
    last = written[-1] if written else None
    if not (isinstance(last, Mapping) and "else" in last):
        written += [model.fail_rule(entries), _else_rule(entries)]
    held = spec if isinstance(spec, Mapping) else model.made_mapping((), entries)
    policy = model.made_mapping([("rules", model.made_list(written, entries))], entries)
    return model.with_value(
        model.without_keys(node, "eval"), "spec", model.with_value(held, "policy", policy), node.keys["eval"]
    )


def _rule(entry: Node) -> Mapping | None:
    """`{expr, do, …}` or `{else: {do, …}}` as a rule."""
    if not isinstance(entry, Mapping):
        return None
    if "else" in entry:
        inner = entry.values["else"]
        if not isinstance(inner, Mapping) or len(entry) > 1:
            return None
        return (
            entry if "then" in inner else model.with_value(entry, "else", model.made_mapping([("then", inner)], inner))
        )
    condition = next((key for key in ("expr", "when", "cond") if key in entry), None)
    if condition is None:
        return None
    named = entry if condition == "when" else model.with_key(entry, condition, "when")
    if "then" in named:
        return named
    then = model.without_keys(named, "when")
    if not len(then):
        then = _do_action("continue", entry)
    keys = {"when": named.keys["when"], "then": model.made_text("then", entry)}
    return Mapping(keys, {"when": named.values["when"], "then": then}, entry.span, entry.path, made=True)


def _do_action(word: str, at: Node) -> Mapping:
    return model.made_mapping([("do", model.made_text(word, at))], at)


def _else_rule(at: Node) -> Mapping:
    return model.made_mapping([("else", model.made_mapping([("then", _do_action("continue", at))], at))], at)


def place_variables(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's variables: in `iter` where only its pipeline reads them, else in `ctx` under a key of the step's own."""
    written = {name for block in _blocks(node) for name in block.values}
    if not written:
        return node
    homes = _homes(node, written)
    placed = _with_homes(node, homes, rewriting)
    names = {f"vars.{name}": f"{store}.{key}" for name, (store, key) in homes.items()}
    renamed = model.with_names(placed, names)
    assert isinstance(renamed, Mapping)
    return renamed


def _homes(step: Mapping, written: set[str]) -> dict[str, tuple[str, str]]:
    """Where each variable lives, and its key there."""
    named = step.get("step")
    label = prefix(str(named.value)) if isinstance(named, Scalar) else "step"
    routed, read = _reads(step.get("next")), _reads(step)
    # The next iteration may read the variable, so it must outlive this one.
    kept = routed | (read if "loop" in step else set())
    return {name: ("ctx", f"{label}_{name}") if name in kept else ("iter", name) for name in sorted(written)}


def _reads(node: Node | None) -> set[str]:
    """The variables that templates below `node` read."""
    texts = [str(scalar.value) for scalar in scalars(node)] if node is not None else []
    return {path[1] for text in texts for path in paths(text) if path[0] == "vars" and len(path) > 1}


def _blocks(node: Node) -> Iterator[Mapping]:
    """Every `set_vars` below `node`."""
    if isinstance(node, Mapping):
        block = node.get("set_vars")
        if isinstance(block, Mapping):
            yield block
        for value in node.values.values():
            yield from _blocks(value)
    elif isinstance(node, Sequence):
        for item in node:
            yield from _blocks(item)


def _with_homes(node: Mapping, homes: dict[str, tuple[str, str]], rewriting: Rewriting) -> Mapping:
    for key, value in node.values.items():
        if isinstance(value, Mapping):
            node = model.with_value(node, key, _with_homes(value, homes, rewriting))
        elif isinstance(value, Sequence):
            items = [_with_homes(item, homes, rewriting) if isinstance(item, Mapping) else item for item in value]
            node = model.with_value(node, key, model.with_items(value, items))
    block = node.get("set_vars")
    return _with_moved_vars(node, block, homes, rewriting) if isinstance(block, Mapping) else node


def _with_moved_vars(node: Mapping, block: Mapping, homes: dict[str, tuple[str, str]], rewriting: Rewriting) -> Mapping:
    """`node` with the entries of its `set_vars` under `set_iter` and `set_ctx`."""
    at = node.keys["set_vars"]
    changed = model.without_keys(node, "set_vars")
    for name, place, value in block.items():
        store, key = homes[name]
        rewriting.note(place, f"{name} of set_vars (a variable of this step)", f"{store}.{key}")
        held = changed.get(f"set_{store}")
        home = held if isinstance(held, Mapping) else model.made_mapping((), at)
        changed = model.with_value(changed, f"set_{store}", model.with_value(home, key, value, place), at)
    return changed
