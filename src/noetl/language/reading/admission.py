"""Admission: the rules that let a token into a step (ADM-01, O-03), and v2-eval's `when` for the same (V2E-02)."""

from __future__ import annotations

from noetl.language.grammar.policies import ADMISSION, ADMIT
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.playbook import Admit, AdmitRuleSyntax
from noetl.language.reading.rule_lists import Rung, read_ladder
from noetl.language.reading.scope_policies import CONTROL
from noetl.language.reading.shared_checks import ReadContext, boolean, check_keys, choice, mapping, opening, sequence

_SHAPE = "admit: {rules: [{when: …, then: {allow: true}}, {else: {then: {allow: false}}}]}"


def read_admit(reading: ReadContext, node: Node | None) -> Admit | None:
    """`step.spec.policy.admit`."""
    admit = mapping(reading, node, "E_POLICY_SHAPE", "admit", _SHAPE)
    if admit is None:
        return None
    check_keys(reading, admit, ADMIT, "E_POLICY_SHAPE")
    mode = choice(reading, admit.get("mode"), ADMIT["mode"].words, "E_POLICY_SHAPE", "admit.mode")
    if "rules" not in admit:
        reading.error("E_POLICY_SHAPE", opening(admit), "admit has no rules, and rules is required", _SHAPE)
    listed = sequence(reading, admit.get("rules"), "E_POLICY_SHAPE", "admit.rules", _SHAPE)
    if listed is not None and not len(listed):
        reading.error("E_POLICY_SHAPE", listed, "admit.rules is empty, which would deny every token", _SHAPE)
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
