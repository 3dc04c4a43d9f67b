"""Repairs of ways out: a `case` whose rules only lead on, beside a pipeline of v10; modes that stood on the step."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    with_names,
    with_value,
    without_keys,
)

# What case rules call things, as arcs do. The events of a call are those of the step (docs/conventions.md).
_NAMES = {
    "response": "event.result",
    "result": "event.result",
    "this.data": "event.result",
    "this": "event",
    "error": "event.error",
    "vars": "ctx",
}
_MODES = ("next_mode", "case_mode")


def write_arcs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Each rule is an arc, and what `next` says comes after them. Rules that work are left for `case_steps`."""
    case, after = node.get("case"), node.get("next")
    if not isinstance(case, Sequence) or (isinstance(after, Mapping) and "arcs" in after):
        return node
    arcs = [_arcs_of_rule(rule) for rule in case]
    last = _targets(after) if after is not None else []
    if any(arc is None for arc in arcs) or last is None:
        return node
    rewriting.note(node.keys["case"], '"case"', "next.arcs")
    written: list[Node] = [arc for rule in arcs if rule is not None for arc in rule]
    written += [made_mapping([("step", target), *_args(given)], target) for target, given in last]
    router = made_mapping([("arcs", made_list(written, case))], case)
    return with_value(without_keys(node, "case", "next"), "next", router, node.keys["case"])


def _arcs_of_rule(rule: Node) -> list[Mapping] | None:
    """The arcs of `{when, then: {next}}` or `{else: {next}}`; None when the rule does more than lead on."""
    if not isinstance(rule, Mapping):
        return None
    when, then = rule.get("when"), rule.get("then") if "when" in rule else rule.get("else")
    if isinstance(then, Sequence) and len(then) == 1:
        then = then.items[0]
    if isinstance(then, Mapping) and "then" in then:
        then = then.get("then")
    if not isinstance(then, Mapping) or set(then.values) != {"next"} or set(rule.values) - {"when", "then", "else"}:
        return None
    targets = _targets(then.values["next"])
    if targets is None or len(targets) != 1:  # several targets fork, which one exclusive arc cannot
        return None
    ((target, given),) = targets
    entries: list[tuple[str, Node]] = [("step", target)]
    if when is not None:
        entries.append(("when", with_names(when, _NAMES)))
    return [made_mapping([*entries, *_args(given)], rule)]


def _args(given: Node | None) -> list[tuple[str, Node]]:
    return [("args", with_names(given, _NAMES))] if given is not None else []


def _targets(node: Node) -> list[tuple[Scalar, Node | None]] | None:
    """The names that `next` leads to, with their args."""
    match node:
        case Scalar() if isinstance(node.value, str) and "{{" not in node.value:
            return [(node, None)]
        case Mapping() if set(node.values) <= {"step", "args"} and isinstance(node.get("step"), Scalar):
            step = node.values["step"]
            return [(step, node.get("args"))] if isinstance(step, Scalar) else None
        case Mapping() if set(node.values) == {"next"}:
            return _targets(node.values["next"])
        case Sequence():
            found = [_targets(item) for item in node]
            return None if any(one is None for one in found) else [pair for one in found if one for pair in one]
    return None


def move_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The mode of the router, from the step's spec or from the step."""
    spec, router = node.get("spec"), node.get("next")
    for key in _MODES:
        holder = spec if isinstance(spec, Mapping) and key in spec else node
        mode = holder.get(key)
        if mode is None:
            continue
        rewriting.note(holder.keys[key], f'"{key}"', "next.spec.mode")
        if isinstance(router, Sequence):
            router = made_mapping([("arcs", router)], router)
        if holder is node:
            node = without_keys(node, key)
        elif isinstance(spec, Mapping):
            spec = without_keys(spec, key)
            node = with_value(node, "spec", spec) if len(spec) else without_keys(node, "spec")
        if isinstance(router, Mapping):
            options = router.get("spec")
            held = options if isinstance(options, Mapping) else made_mapping((), mode)
            if "mode" not in held:
                router = with_value(router, "spec", with_value(held, "mode", _word(mode)))
            node = with_value(node, "next", router)
    return node


def _word(mode: Node) -> Node:
    return made_text(mode.value, mode) if isinstance(mode, Scalar) else mode


def write_fork(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`next: [a, b]`: names alone are v2-case, where several targets fork (C-09)."""
    names = node.get("next")
    if not isinstance(names, Sequence) or len(names) < 2 or "step" not in node:
        return node
    targets = [name for name in names if isinstance(name, Scalar) and isinstance(name.value, str)]
    if len(targets) != len(names):
        return node
    rewriting.note(node.keys["next"], "next as a list of names", "next: {spec: {mode: inclusive}, arcs: […]}")
    arcs = made_list([made_mapping([("step", name)], name) for name in targets], names)
    mode = made_mapping([("mode", made_text("inclusive", names))], names)
    return with_value(node, "next", made_mapping([("spec", mode), ("arcs", arcs)], names))
