"""Rules and routers: the decision where a token or a task goes next.

Ordered rules are a list of `{when, then}`, of which the first true one decides, and at most one `else` at the end
(VAL-07). Task policies, admission and `choose` are written so, and each reads what its rules do. Admission is read here
too. `expr` and similar words of older dialects are not read here.

A router has the arcs of a step (ROUTE-01, ROUTE-13, V2E-09, C-31). v10 writes an object, v2-eval a list; both become
the same router. Whether a target exists is not known here.
"""

from __future__ import annotations

import msgspec

from noetl.language.grammar.policies import ADMISSION, ADMIT
from noetl.language.grammar.steps import ARC, ARC_SPEC, ROUTER, ROUTER_SPEC
from noetl.language.reading import shared_checks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.old_keys import WORDS_OF_OTHERS
from noetl.language.reading.playbook import Admit, AdmitRuleSyntax, ArcSyntax, Dialect, RouterSyntax
from noetl.language.reading.policy_keys import CONTROL, check_dedupe, check_parts, read_scope_policy, refuse_control
from noetl.language.reading.shared_checks import ReadContext

_SHAPE = "write {when: …, then: …} or {else: {then: …}}"


class OrderedRule(msgspec.Struct, frozen=True):
    """One rule. `when` is None for else; `body` is what its `then` holds."""

    node: Mapping
    when: Scalar | None
    body: Node


def read_ordered_rules(reading: ReadContext, rules: Sequence) -> tuple[OrderedRule, ...]:
    """The rules that can be read, in order."""
    check_else_order(reading, rules)
    rules_read = (_read_ordered_rule(reading, rule) for rule in rules)
    return tuple(ordered for ordered in rules_read if ordered is not None)


def check_else_order(reading: ReadContext, rules: Sequence) -> None:
    """`else` occurs at most once, and last."""
    alone = sum(isinstance(rule, Mapping) and "else" in rule for rule in rules) == 1
    for rule in rules.items[:-1]:
        if isinstance(rule, Mapping) and "else" in rule:
            message = (
                "else is not the last rule, so the rules after it are never reached" if alone else "else stands twice"
            )
            hint = "move else to the end" if alone else "keep one else, at the end"
            reading.error("E_ELSE_ORDER", rule.keys["else"], message, hint)


def read_condition(reading: ReadContext, node: Node, what: str = "when") -> Scalar | None:
    """A guard. An invalid one is kept if possible, so that its rule or arc is not lost."""
    read = shared_checks.guard(reading, node, what)
    if read is None and isinstance(node, Scalar) and isinstance(node.value, str):
        return node
    return read


def _read_ordered_rule(reading: ReadContext, rule: Node) -> OrderedRule | None:
    if not isinstance(rule, Mapping):
        reading.error("E_RULE_SHAPE", rule, f"a rule must be a mapping, and this is {describe(rule)}", _SHAPE)
        return None
    stray = _stray_action(rule)
    if stray is not None:
        message = f'"{stray.value}" stands beside the condition, and a rule acts under then'
        reading.error("E_RULE_SHAPE", stray, message, f"then: {{{stray.value}: …}}")
    else:
        handled = ("expr",) if reading.dialect is Dialect.V10 else ()
        shared_checks.known_keys(reading, rule, ("when", "then", "else"), "E_RULE_SHAPE", "a rule", handled=handled)
    if "expr" in rule and reading.dialect is Dialect.V10:
        reading.error("E_EXPR", rule.keys["expr"], 'v10 has no "expr"', "write it as when")
    if "else" in rule:
        return _read_else(reading, rule)
    return _read_when(reading, rule, complete=stray is None)


def _stray_action(rule: Mapping) -> Scalar | None:
    """The first action of a rule that has no `then`, if it was written beside `when`."""
    if "then" in rule or "else" in rule:
        return None
    actions = ("do", "allow", "park", "set_iter", "set_ctx", "to", "attempts")
    return next((key_node for key, key_node, _ in rule.items() if key in actions), None)


def _read_when(reading: ReadContext, rule: Mapping, complete: bool) -> OrderedRule | None:
    condition = rule.get("when") if "when" in rule else rule.get("expr")
    if condition is None:
        reading.error("E_RULE_SHAPE", shared_checks.opening(rule), "this rule has neither when nor else", _SHAPE)
        return None
    when = read_condition(reading, condition)
    body = rule.get("then")
    if body is None or (isinstance(body, Scalar) and body.value is None):
        if complete:
            reading.error("E_RULE_SHAPE", shared_checks.opening(rule), "this rule has no then", _SHAPE)
        return None
    return OrderedRule(rule, when, body) if when is not None else None


def _read_else(reading: ReadContext, rule: Mapping) -> OrderedRule | None:
    """`{else: {then: …}}`; also `{else: {do: …}}` (design.md §5) and `{else: null, then: …}` (C-35)."""
    if "when" in rule:
        message = "a rule has either when or else, and this one has both"
        reading.error("E_RULE_SHAPE", rule.keys["else"], message, "make else a rule of its own, at the end")
        return None
    inner = rule.values["else"]
    empty = isinstance(inner, Scalar) and inner.value is None
    if "then" in rule:
        if not empty:
            reading.error("E_RULE_SHAPE", rule.keys["then"], "then stands beside else", "else: {then: …}")
        return OrderedRule(rule, None, rule.values["then"])
    if not isinstance(inner, Mapping):
        found = "empty" if empty else describe(inner)
        reading.error("E_RULE_SHAPE", rule.keys["else"], f"else must hold then, and this is {found}", "else: {then: …}")
        return None
    if "then" not in inner:
        return OrderedRule(rule, None, inner)
    shared_checks.known_keys(reading, inner, ("then",), "E_RULE_SHAPE", "else", closed=True)
    return OrderedRule(rule, None, inner.values["then"])


# Admission: the rules that let a token into a step (ADM-01, O-03), and v2-eval's `when` for the same (V2E-02).

_ADMIT_SHAPE = "admit: {rules: [{when: …, then: {allow: true}}, {else: {then: {allow: false}}}]}"


def read_admit(reading: ReadContext, node: Node | None) -> Admit | None:
    """`step.spec.policy.admit`."""
    admit = shared_checks.known_block(reading, node, ADMIT, "E_POLICY_SHAPE", "admit", _ADMIT_SHAPE)
    if admit is None:
        return None
    mode = shared_checks.choice(reading, admit.get("mode"), ADMIT["mode"].words, "E_POLICY_SHAPE", "admit.mode")
    if "rules" not in admit:
        reading.error(
            "E_POLICY_SHAPE", shared_checks.opening(admit), "admit has no rules, and rules is required", _ADMIT_SHAPE
        )
    listed = shared_checks.sequence(reading, admit.get("rules"), "E_POLICY_SHAPE", "admit.rules", _ADMIT_SHAPE)
    if listed is not None and not len(listed):
        reading.error("E_POLICY_SHAPE", listed, "admit.rules is empty, which would deny every token", _ADMIT_SHAPE)
    rules = (_read_rule(reading, ordered) for ordered in (read_ordered_rules(reading, listed) if listed else ()))
    return Admit(node=admit, rules=tuple(rule for rule in rules if rule is not None), mode=mode or "exclusive")


def _read_rule(reading: ReadContext, ordered: OrderedRule) -> AdmitRuleSyntax | None:
    then = ordered.body
    if not isinstance(then, Mapping):
        message = f"then must be a mapping with allow, and this is {describe(then)}"
        reading.error("E_RULE_SHAPE", then, message, "then: {allow: true}")
        return None
    actions = [key for key in then.values if key in CONTROL]
    for key in actions:
        message = f'"{key}" decides about a task and is not allowed in admission, which only allows or denies'
        hint = "write allow: true or allow: false; rules for the outcome of a task are in task.spec.policy.rules"
        reading.error("E_POLICY_SCOPE", then.keys[key], message, hint)
    shared_checks.check_keys(reading, then, ADMISSION, "E_RULE_SHAPE", handled=CONTROL)
    park = shared_checks.boolean(reading, then.get("park"), "E_RULE_SHAPE", "park")
    if "allow" not in then and not park and not actions:
        message = "allow is required: this rule neither allows nor denies"
        reading.error("E_RULE_SHAPE", shared_checks.opening(then), message, "then: {allow: true}")
    allow = shared_checks.boolean(reading, then.get("allow"), "E_RULE_SHAPE", "allow")
    if park and allow:
        message = "a token is either parked or allowed, and this rule does both"
        reading.error("E_RULE_SHAPE", then.keys["park"], message, "keep allow or park")
    set_token = shared_checks.mapping(
        reading, then.get("set_token"), "E_RULE_SHAPE", "set_token", "set_token: {name: value}"
    )
    return AdmitRuleSyntax(
        node=ordered.node, when=ordered.when, allow=allow, park=park and not allow, set_token=set_token
    )


def admit_when(when: Scalar) -> Admit:
    """The admission that v2-eval writes as the step's `when`: true allows, else denies."""
    return Admit(
        node=when,
        rules=(AdmitRuleSyntax(node=when, when=when, allow=True), AdmitRuleSyntax(node=when, when=None, allow=False)),
    )


MODES = ROUTER_SPEC["mode"].words
_CODE = "E_NEXT_SHAPE"
_ELSEWHERE = {**WORDS_OF_OTHERS, "unless": 'write when: "{{ not … }}"'}
_ROUTER = "next: {spec: {mode: exclusive}, arcs: [{step: …}]}"
_ALL = "write next: {parallel: […]} if all shall run"
_LIST = "next: [{step: …, when: …}]"


def read_router(reading: ReadContext, node: Node | None) -> RouterSyntax | None:
    """v10's `next`. An older shape is refused but still read, so that its targets count."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if not isinstance(node, Mapping):
        found = describe(node)
        are_names = isinstance(node, Sequence) and len(node) > 1 and all(isinstance(one, Scalar) for one in node)
        hint = f"{_ROUTER} if the first shall run; {_ALL}" if are_names else _ROUTER
        reading.error(_CODE, node, f"next must be a router with arcs, and this is {found}", hint)
        return _read_older_shape(node)
    if "arcs" not in node:
        reading.error(_CODE, shared_checks.opening(node), "next has no arcs", _ROUTER)
        return None
    shared_checks.check_keys(reading, node, ROUTER, _CODE, elsewhere=WORDS_OF_OTHERS)
    spec = shared_checks.mapping(reading, node.get("spec"), _CODE, "next.spec", _ROUTER)
    mode = _read_router_spec(reading, spec) if spec else None
    arcs = shared_checks.sequence(reading, node.values["arcs"], _CODE, "next.arcs", _ROUTER)
    return RouterSyntax(node=node, arcs=_read_arcs(reading, arcs), mode=mode or "exclusive", spec=spec)


def read_next_list(reading: ReadContext, node: Node | None, step_spec: Mapping | None) -> RouterSyntax | None:
    """v2-eval's `next` list with its mode in `step.spec.next_mode`."""
    mode = shared_checks.choice(reading, step_spec.get("next_mode") if step_spec else None, MODES, _CODE, "next_mode")
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if isinstance(node, Sequence):
        return RouterSyntax(node=node, arcs=_read_arcs(reading, node), mode=mode or "exclusive")
    reading.error(_CODE, node, f"next must be a list of {{step, when, args}}, and this is {describe(node)}", _LIST)
    return _read_older_shape(node)


def read_unguarded(reading: ReadContext, node: Node | None, what: str) -> None:
    """`unguarded: always`, on a router or on the executor (ROUTE-05)."""
    hint = "write always, or leave it out: then a failure needs an arc that asks for it"
    shared_checks.choice(reading, node, ROUTER_SPEC["unguarded"].words, "E_SPEC_OPTION", what, hint)


def _read_older_shape(node: Node) -> RouterSyntax | None:
    """The targets of a name or a list of steps; further mistakes in it are not reported."""
    items = node.items if isinstance(node, Sequence) else (node,)
    found = ((item, item.get("step") if isinstance(item, Mapping) else item) for item in items)
    arcs = tuple(
        ArcSyntax(node=item, target=target) for item, target in found if isinstance(target, Scalar) and _is_name(target)
    )
    # Inclusive: names alone mean "all of them" in the dialect that this shape comes from.
    return RouterSyntax(node=node, arcs=arcs, mode="inclusive") if arcs else None


def _is_name(node: Scalar) -> bool:
    return isinstance(node.value, str) and bool(node.value.strip()) and not shared_checks.is_templated(node)


def _read_router_spec(reading: ReadContext, spec: Mapping) -> str | None:
    refuse_control(reading, spec, "next.spec")
    shared_checks.check_keys(reading, spec, ROUTER_SPEC, "E_SPEC_OPTION", handled=CONTROL)
    check_parts(reading, read_scope_policy(reading, spec.get("policy"), "next"), "next")
    read_unguarded(reading, spec.get("unguarded"), "next.spec.unguarded")
    return shared_checks.choice(reading, spec.get("mode"), MODES, _CODE, "next.spec.mode")


def _read_arcs(reading: ReadContext, items: Sequence | None) -> tuple[ArcSyntax, ...]:
    arcs = (_read_arc(reading, item) for item in items or ())
    return tuple(arc for arc in arcs if arc is not None)


def _read_arc(reading: ReadContext, item: Node) -> ArcSyntax | None:
    if not isinstance(item, Mapping):
        hint = f"- step: {item.value}" if isinstance(item, Scalar) and item.value else "- step: …"
        if reading.dialect is Dialect.V2_EVAL and isinstance(item, Scalar):
            hint += f" if the first shall run; {_ALL}"
            hint += "; names alone are v2-case, where several fork (metadata.dialect: v2-case)"
        reading.error(_CODE, item, f"an arc must be a mapping with step, and this is {describe(item)}", hint)
        return None
    handled = ("then", "expr") if reading.dialect is Dialect.V10 else ("then",)
    shared_checks.check_keys(reading, item, ARC, _CODE, handled=handled, elsewhere=_ELSEWHERE)
    if "then" in item:
        hint = "give the arc a step; what runs there is that step's tool"
        reading.error(_CODE, item.keys["then"], "an arc has no then", hint)
    if "expr" in item and reading.dialect is Dialect.V10:
        reading.error("E_EXPR", item.keys["expr"], 'v10 has no "expr"', "write it as when")
    target = _read_target(reading, item)
    condition = item.get("when")
    when = read_condition(reading, condition) if condition is not None else None
    args = shared_checks.mapping(reading, item.get("args"), _CODE, "args", "args: {name: value}")
    set_ctx = shared_checks.mapping(reading, item.get("set_ctx"), _CODE, "set_ctx", "set_ctx: {name: value}")
    spec = shared_checks.mapping(reading, item.get("spec"), _CODE, "an arc's spec", "spec: {priority: 5}")
    check_arc_options(reading, spec)
    # An arc whose guard cannot be read is left out: without it, it would be an arc that is always taken.
    if target is None or (condition is not None and when is None):
        return None
    return ArcSyntax(node=item, target=target, when=when, args=args, set_ctx=set_ctx, spec=spec)


def _read_target(reading: ReadContext, item: Mapping) -> Scalar | None:
    if "step" not in item:
        reading.error(_CODE, shared_checks.opening(item), "this arc has no step to lead to", "- step: …")
        return None
    target = shared_checks.text(reading, item.values["step"], _CODE, "step", "name the step that comes next")
    if shared_checks.is_templated(target):
        hint = "write one guarded arc per target: {step: a, when: …}, {step: b, when: …}"
        reading.error("E_TARGET_TEMPLATE", item.values["step"], "an arc's step must be a name, not a template", hint)
        return None
    return target


# Options of an arc: priority, dedupe, partition, delay, tokens, cancel, compensation (C-31, ADV-03…05, beyond.md §1).

_OPTION_CODE = "E_SPEC_OPTION"


def check_arc_options(reading: ReadContext, spec: Mapping | None) -> None:
    """Report every unknown option of an arc, and every option with an invalid value."""
    if spec is None:
        return
    handled = (*CONTROL, "guard", "mode", "policy")
    shared_checks.check_keys(reading, spec, ARC_SPEC, _OPTION_CODE, handled=handled)
    refuse_control(reading, spec, "an arc's spec")
    _refuse_misplaced(reading, spec)
    shared_checks.duration(reading, spec.get("delay"), "delay")
    shared_checks.whole_number(reading, spec.get("priority"), _OPTION_CODE, "priority")
    if "dedupe" in spec:
        check_dedupe(reading, spec.values["dedupe"], "dedupe", _OPTION_CODE)
    _check_partition(reading, spec.get("partition"))
    _check_tokens(reading, spec.get("tokens"))
    _check_cancel(reading, spec.get("cancel"))
    shared_checks.boolean(reading, spec.get("trigger_compensation"), _OPTION_CODE, "trigger_compensation")


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
        found = "a template" if shared_checks.is_templated(node) else shared_checks.found_text(node)
        reading.error(
            _OPTION_CODE, node, f"tokens must be a whole number of at least 1, and this is {found}", "tokens: 2"
        )


def _check_cancel(reading: ReadContext, node: Node | None) -> None:
    if node is None or (isinstance(node, Scalar) and node.value == "execution"):
        return
    names = isinstance(node, Sequence) and all(
        isinstance(item, Scalar) and isinstance(item.value, str) and item.value and not shared_checks.is_templated(item)
        for item in node
    )
    if not names:
        hint = "cancel: [step, …], or cancel: execution"
        reading.error(_OPTION_CODE, node, f"cancel must list steps, and this is {shared_checks.found_text(node)}", hint)
