"""Routers and arcs: where a step leads (ROUTE-01, ROUTE-13, V2E-09, C-31).

v10 writes a router object, v2-eval a list; both are the same router. Whether a target exists is not known here.
"""

from __future__ import annotations

from noetl.language.grammar.steps import ARC, ARC_SPEC, ROUTER, ROUTER_SPEC
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.numbers import duration, found_text, is_templated, whole_number
from noetl.language.reading.playbook import ArcSyntax, Dialect, RouterSyntax
from noetl.language.reading.policy_keys import CONTROL, check_dedupe, check_parts, read_scope_policy, refuse_control
from noetl.language.reading.rule_lists import read_condition
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    mapping,
    opening,
    sequence,
    text,
)

MODES = ROUTER_SPEC["mode"].words
_CODE = "E_NEXT_SHAPE"
_ROUTER = "next: {spec: {mode: exclusive}, arcs: [{step: …}]}"
_LIST = "next: [{step: …, when: …}]"


def read_router(reading: ReadContext, node: Node | None) -> RouterSyntax | None:
    """v10's `next`. An older shape is refused, and read all the same, so that its targets still count."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if not isinstance(node, Mapping):
        found = describe(node)
        reading.error(_CODE, node, f"next must be a router with arcs, and this is {found}", _ROUTER)
        return _read_older_shape(node)
    if "arcs" not in node:
        reading.error(_CODE, opening(node), "next has no arcs", _ROUTER)
        return None
    check_keys(reading, node, ROUTER, _CODE)
    spec = mapping(reading, node.get("spec"), _CODE, "next.spec", _ROUTER)
    mode = _read_router_spec(reading, spec) if spec else None
    arcs = sequence(reading, node.values["arcs"], _CODE, "next.arcs", _ROUTER)
    return RouterSyntax(node=node, arcs=_read_arcs(reading, arcs), mode=mode or "exclusive", spec=spec)


def read_next_list(reading: ReadContext, node: Node | None, step_spec: Mapping | None) -> RouterSyntax | None:
    """v2-eval's `next` list with its mode in `step.spec.next_mode`."""
    mode = choice(reading, step_spec.get("next_mode") if step_spec else None, MODES, _CODE, "next_mode")
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if isinstance(node, Sequence):
        return RouterSyntax(node=node, arcs=_read_arcs(reading, node), mode=mode or "exclusive")
    reading.error(_CODE, node, f"next must be a list of {{step, when, args}}, and this is {describe(node)}", _LIST)
    return _read_older_shape(node)


def read_unguarded(reading: ReadContext, node: Node | None, what: str) -> None:
    """`unguarded: always`, on a router or on the executor (ROUTE-05)."""
    hint = "write always, or leave it out: then a failure needs an arc that asks for it"
    choice(reading, node, ROUTER_SPEC["unguarded"].words, "E_SPEC_OPTION", what, hint)


def _read_older_shape(node: Node) -> RouterSyntax | None:
    """The targets of a name or a list of steps; other mistakes in it are not reported on top."""
    items = node.items if isinstance(node, Sequence) else (node,)
    found = ((item, item.get("step") if isinstance(item, Mapping) else item) for item in items)
    arcs = tuple(
        ArcSyntax(node=item, target=target) for item, target in found if isinstance(target, Scalar) and _is_name(target)
    )
    return RouterSyntax(node=node, arcs=arcs, mode="inclusive") if arcs else None


def _is_name(node: Scalar) -> bool:
    return isinstance(node.value, str) and bool(node.value.strip()) and not is_templated(node)


def _read_router_spec(reading: ReadContext, spec: Mapping) -> str | None:
    refuse_control(reading, spec, "next.spec")
    check_keys(reading, spec, ROUTER_SPEC, "E_SPEC_OPTION", handled=CONTROL)
    check_parts(reading, read_scope_policy(reading, spec.get("policy"), "next"), "next")
    read_unguarded(reading, spec.get("unguarded"), "next.spec.unguarded")
    return choice(reading, spec.get("mode"), MODES, _CODE, "next.spec.mode")


def _read_arcs(reading: ReadContext, items: Sequence | None) -> tuple[ArcSyntax, ...]:
    arcs = (_read_arc(reading, item) for item in items or ())
    return tuple(arc for arc in arcs if arc is not None)


def _read_arc(reading: ReadContext, item: Node) -> ArcSyntax | None:
    if not isinstance(item, Mapping):
        hint = f"- step: {item.value}" if isinstance(item, Scalar) and item.value else "- step: …"
        if reading.dialect is Dialect.V2_EVAL and isinstance(item, Scalar):
            hint += "; names alone are v2-case, where several fork (metadata.dialect: v2-case)"
        reading.error(_CODE, item, f"an arc must be a mapping with step, and this is {describe(item)}", hint)
        return None
    handled = ("then", "expr") if reading.dialect is Dialect.V10 else ("then",)
    check_keys(reading, item, ARC, _CODE, handled=handled)
    if "then" in item:
        hint = "give the arc a step; what runs there is that step's tool"
        reading.error(_CODE, item.keys["then"], "an arc has no then", hint)
    if "expr" in item and reading.dialect is Dialect.V10:
        reading.error("E_EXPR", item.keys["expr"], 'v10 has no "expr"', "write it as when")
    target = _read_target(reading, item)
    condition = item.get("when")
    when = read_condition(reading, condition) if condition is not None else None
    args = mapping(reading, item.get("args"), _CODE, "args", "args: {name: value}")
    set_ctx = mapping(reading, item.get("set_ctx"), _CODE, "set_ctx", "set_ctx: {name: value}")
    spec = mapping(reading, item.get("spec"), _CODE, "an arc's spec", "spec: {priority: 5}")
    check_arc_options(reading, spec)
    if target is None or (condition is not None and when is None):
        return None
    return ArcSyntax(node=item, target=target, when=when, args=args, set_ctx=set_ctx, spec=spec)


def _read_target(reading: ReadContext, item: Mapping) -> Scalar | None:
    if "step" not in item:
        reading.error(_CODE, opening(item), "this arc has no step to lead to", "- step: …")
        return None
    target = text(reading, item.values["step"], _CODE, "step", "name the step that comes next")
    if is_templated(target):
        hint = "write one guarded arc per target: {step: a, when: …}, {step: b, when: …}"
        reading.error("E_TARGET_TEMPLATE", item.values["step"], "an arc's step must be a name, not a template", hint)
        return None
    return target


# Options of an arc: priority, dedupe, partition, delay, tokens, cancel, compensation (C-31, ADV-03…05, beyond.md §1).

_OPTION_CODE = "E_SPEC_OPTION"


def check_arc_options(reading: ReadContext, spec: Mapping | None) -> None:
    """Note every option of an arc that it does not have, or that holds what it cannot mean."""
    if spec is None:
        return
    handled = (*CONTROL, "guard", "mode", "policy")
    check_keys(reading, spec, ARC_SPEC, _OPTION_CODE, handled=handled)
    refuse_control(reading, spec, "an arc's spec")
    _refuse_misplaced(reading, spec)
    duration(reading, spec.get("delay"), "delay")
    whole_number(reading, spec.get("priority"), _OPTION_CODE, "priority")
    if "dedupe" in spec:
        check_dedupe(reading, spec.values["dedupe"], "dedupe", _OPTION_CODE)
    _check_partition(reading, spec.get("partition"))
    _check_tokens(reading, spec.get("tokens"))
    _check_cancel(reading, spec.get("cancel"))
    boolean(reading, spec.get("trigger_compensation"), _OPTION_CODE, "trigger_compensation")


def _refuse_misplaced(reading: ReadContext, spec: Mapping) -> None:
    mode = "next.spec.mode" if reading.dialect is Dialect.V10 else "step.spec.next_mode"
    for key, hint in (("guard", "write the condition as the arc's when"), ("mode", f"write {mode}")):
        if key in spec:
            reading.error(_OPTION_CODE, spec.keys[key], f'"{key}" is not an option of an arc', hint)
    if "policy" in spec:
        hint = "write next.spec.policy, or the option itself: priority, dedupe, partition"
        reading.error("E_POLICY_SCOPE", spec.keys["policy"], "an arc has no policy", hint)


def _check_partition(reading: ReadContext, node: Node | None) -> None:
    if node is not None and not isinstance(node, Scalar):
        reading.error(
            _OPTION_CODE, node, f"partition must be an expression, and this is {describe(node)}", 'partition: "{{ … }}"'
        )


def _check_tokens(reading: ReadContext, node: Node | None) -> None:
    """A number, not a template: how many tokens an arc makes is part of the net (beyond.md §1)."""
    whole = isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)
    if node is not None and not (whole and isinstance(node, Scalar) and int(node.value or 0) >= 1):
        found = "a template" if is_templated(node) else found_text(node)
        reading.error(
            _OPTION_CODE, node, f"tokens must be a whole number of at least 1, and this is {found}", "tokens: 2"
        )


def _check_cancel(reading: ReadContext, node: Node | None) -> None:
    if node is None or (isinstance(node, Scalar) and node.value == "execution"):
        return
    names = isinstance(node, Sequence) and all(
        isinstance(item, Scalar) and isinstance(item.value, str) and item.value and not is_templated(item)
        for item in node
    )
    if not names:
        hint = "cancel: [step, …], or cancel: execution"
        reading.error(_OPTION_CODE, node, f"cancel must list steps, and this is {found_text(node)}", hint)
