"""Ladders of rules: `{when, then}` rungs, the first true one deciding, and at most one `else` at the end (VAL-07).

Task policies, admission and `choose` are all written so; what a rung does is read by them. `expr` and its kin of
older dialects are not read here.
"""

from __future__ import annotations

import msgspec

from noetl.language.grammar.policies import ADMISSION, ADMIT
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import Admit, AdmitRuleSyntax, Dialect
from noetl.language.reading.policy_keys import CONTROL
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    guard,
    known_keys,
    mapping,
    opening,
    sequence,
)

_SHAPE = "write {when: …, then: …} or {else: {then: …}}"


class Rung(msgspec.Struct, frozen=True):
    """One rule. `when` is None for else; `body` is what its `then` holds."""

    node: Mapping
    when: Scalar | None
    body: Node


def read_ladder(reading: ReadContext, rules: Sequence) -> tuple[Rung, ...]:
    """The rungs that can be read, in order."""
    check_else_order(reading, rules)
    rungs = (_read_rung(reading, rule) for rule in rules)
    return tuple(rung for rung in rungs if rung is not None)


def check_else_order(reading: ReadContext, rules: Sequence) -> None:
    """`else` stands at most once, and last."""
    alone = sum(isinstance(rule, Mapping) and "else" in rule for rule in rules) == 1
    for rule in rules.items[:-1]:
        if isinstance(rule, Mapping) and "else" in rule:
            message = "else is not the last rule, so the rules after it never count" if alone else "else stands twice"
            hint = "move else to the end" if alone else "keep one else, at the end"
            reading.error("E_ELSE_ORDER", rule.keys["else"], message, hint)


def read_condition(reading: ReadContext, node: Node, what: str = "when") -> Scalar | None:
    """A guard; one that is wrong but can be shown is kept, so that its rule or arc does not vanish."""
    read = guard(reading, node, what)
    if read is None and isinstance(node, Scalar) and isinstance(node.value, str):
        return node
    return read


def _read_rung(reading: ReadContext, rule: Node) -> Rung | None:
    if not isinstance(rule, Mapping):
        reading.error("E_RULE_SHAPE", rule, f"a rule must be a mapping, and this is {describe(rule)}", _SHAPE)
        return None
    stray = _stray_action(rule)
    if stray is not None:
        message = f'"{stray.value}" stands beside the condition, and a rule acts under then'
        reading.error("E_RULE_SHAPE", stray, message, f"then: {{{stray.value}: …}}")
    else:
        handled = ("expr",) if reading.dialect is Dialect.V10 else ()
        known_keys(reading, rule, ("when", "then", "else"), "E_RULE_SHAPE", "a rule", handled=handled)
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


def _read_when(reading: ReadContext, rule: Mapping, complete: bool) -> Rung | None:
    condition = rule.get("when") if "when" in rule else rule.get("expr")
    if condition is None:
        reading.error("E_RULE_SHAPE", opening(rule), "this rule has neither when nor else", _SHAPE)
        return None
    when = read_condition(reading, condition)
    body = rule.get("then")
    if body is None or (isinstance(body, Scalar) and body.value is None):
        if complete:
            reading.error("E_RULE_SHAPE", opening(rule), "this rule has no then", _SHAPE)
        return None
    return Rung(rule, when, body) if when is not None else None


def _read_else(reading: ReadContext, rule: Mapping) -> Rung | None:
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
        return Rung(rule, None, rule.values["then"])
    if not isinstance(inner, Mapping):
        found = "empty" if empty else describe(inner)
        reading.error("E_RULE_SHAPE", rule.keys["else"], f"else must hold then, and this is {found}", "else: {then: …}")
        return None
    if "then" not in inner:
        return Rung(rule, None, inner)
    known_keys(reading, inner, ("then",), "E_RULE_SHAPE", "else", closed=True)
    return Rung(rule, None, inner.values["then"])


# Admission: the rules that let a token into a step (ADM-01, O-03), and v2-eval's `when` for the same (V2E-02).

_ADMIT_SHAPE = "admit: {rules: [{when: …, then: {allow: true}}, {else: {then: {allow: false}}}]}"


def read_admit(reading: ReadContext, node: Node | None) -> Admit | None:
    """`step.spec.policy.admit`."""
    admit = mapping(reading, node, "E_POLICY_SHAPE", "admit", _ADMIT_SHAPE)
    if admit is None:
        return None
    check_keys(reading, admit, ADMIT, "E_POLICY_SHAPE")
    mode = choice(reading, admit.get("mode"), ADMIT["mode"].words, "E_POLICY_SHAPE", "admit.mode")
    if "rules" not in admit:
        reading.error("E_POLICY_SHAPE", opening(admit), "admit has no rules, and rules is required", _ADMIT_SHAPE)
    listed = sequence(reading, admit.get("rules"), "E_POLICY_SHAPE", "admit.rules", _ADMIT_SHAPE)
    if listed is not None and not len(listed):
        reading.error("E_POLICY_SHAPE", listed, "admit.rules is empty, which would deny every token", _ADMIT_SHAPE)
    rules = (_read_rule(reading, rung) for rung in (read_ladder(reading, listed) if listed else ()))
    return Admit(node=admit, rules=tuple(rule for rule in rules if rule is not None), mode=mode or "exclusive")


def _read_rule(reading: ReadContext, rung: Rung) -> AdmitRuleSyntax | None:
    then = rung.body
    if not isinstance(then, Mapping):
        message = f"then must be a mapping with allow, and this is {describe(then)}"
        reading.error("E_RULE_SHAPE", then, message, "then: {allow: true}")
        return None
    actions = [key for key in then.values if key in CONTROL]
    for key in actions:
        message = f'"{key}" is a control action, and admission only allows or denies'
        hint = "write allow: true or allow: false; control belongs to task.spec.policy.rules"
        reading.error("E_POLICY_SCOPE", then.keys[key], message, hint)
    check_keys(reading, then, ADMISSION, "E_RULE_SHAPE", handled=CONTROL)
    park = boolean(reading, then.get("park"), "E_RULE_SHAPE", "park")
    if "allow" not in then and not park and not actions:
        message = "allow is required: this rule neither allows nor denies"
        reading.error("E_RULE_SHAPE", opening(then), message, "then: {allow: true}")
    allow = boolean(reading, then.get("allow"), "E_RULE_SHAPE", "allow")
    if park and allow:
        message = "a token is either parked or allowed, and this rule does both"
        reading.error("E_RULE_SHAPE", then.keys["park"], message, "keep allow or park")
    set_token = mapping(reading, then.get("set_token"), "E_RULE_SHAPE", "set_token", "set_token: {name: value}")
    return AdmitRuleSyntax(node=rung.node, when=rung.when, allow=allow, park=park and not allow, set_token=set_token)


def admit_when(when: Scalar) -> Admit:
    """The admission that v2-eval writes as the step's `when`: true allows, else denies."""
    return Admit(
        node=when,
        rules=(AdmitRuleSyntax(node=when, when=when, allow=True), AdmitRuleSyntax(node=when, when=None, allow=False)),
    )
