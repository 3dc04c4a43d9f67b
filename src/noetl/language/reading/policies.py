"""Task outcome policies: v10's `spec.policy` (VAL-06, POL-04, POL-13) and v2-eval's `eval` (V2E-03, C-15)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.policies import TASK_POLICY
from noetl.language.reading.directives import read_then
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import PolicySyntax, RuleSyntax, TaskSyntax
from noetl.language.reading.rule_lists import check_else_order, read_condition, read_ladder
from noetl.language.reading.scope_policies import owner_of
from noetl.language.reading.shared_checks import ReadContext, check_keys, choice, known_keys, opening, sequence

TaskListReader = Callable[[ReadContext, Node, str], tuple[TaskSyntax, ...]]

_SHAPE = "policy: {rules: [{when: …, then: {do: …}}, {else: {then: {do: …}}}]}"


def read_policy(reading: ReadContext, node: Node | None, read_hooks: TaskListReader) -> PolicySyntax | None:
    """A v10 task policy, or None when there is none that can be read."""
    if node is None:
        return None
    if not isinstance(node, Mapping):
        message = f"a task policy must be a mapping with rules, and this is {describe(node)}"
        reading.error("E_POLICY_SHAPE", node, message, _SHAPE)
        return None
    _check_keys(reading, node)
    if "rules" not in node:
        reading.error("E_POLICY_SHAPE", opening(node), "a task policy has no rules, and rules is required", _SHAPE)
        return None
    rules = sequence(reading, node.values["rules"], "E_POLICY_SHAPE", "rules", _SHAPE)
    return PolicySyntax(
        node=node,
        rules=_read_rules(reading, rules) if rules else (),
        on_unmatched=choice(
            reading, node.get("on_unmatched"), TASK_POLICY["on_unmatched"].words, "E_POLICY_SHAPE", "on_unmatched"
        ),
        before=_read_hooks(reading, node, "before", read_hooks),
        after=_read_hooks(reading, node, "after", read_hooks),
        finally_=_read_hooks(reading, node, "finally", read_hooks),
    )


def _check_keys(reading: ReadContext, node: Mapping) -> None:
    foreign = {key: owner for key in node.values if key not in TASK_POLICY.names() and (owner := owner_of(key))}
    check_keys(reading, node, TASK_POLICY, "E_POLICY_SHAPE", handled=foreign)
    for key, owner in foreign.items():
        message = f'"{key}" is not part of a task policy'
        reading.error("E_POLICY_SCOPE", node.keys[key], message, f"it belongs to {owner}")
    mode = node.get("mode")
    if isinstance(mode, Scalar) and mode.value == "inclusive":
        reading.error("E_RESERVED_OPTION", mode, "mode inclusive is reserved for task policies", "leave it out")
    else:
        choice(reading, mode, TASK_POLICY["mode"].words, "E_POLICY_SHAPE", "mode")


def _read_rules(reading: ReadContext, rules: Sequence) -> tuple[RuleSyntax, ...]:
    read = []
    for rung in read_ladder(reading, rules):
        if isinstance(rung.body, Mapping):
            read.append(RuleSyntax(node=rung.node, when=rung.when, then=read_then(reading, rung.body)))
        else:
            message = f"then must be a mapping, and this is {describe(rung.body)}"
            reading.error("E_RULE_SHAPE", rung.body, message, "then: {do: continue}")
    return tuple(read)


def _read_hooks(reading: ReadContext, node: Mapping, key: str, read_hooks: TaskListReader) -> tuple[TaskSyntax, ...]:
    """Hooks have no control flow: their tasks carry no policy (POL-13)."""
    listed = sequence(reading, node.get(key), "E_POLICY_SHAPE", key, f"{key}: [{{name: …, kind: …}}]")
    return read_hooks(reading, listed, key) if listed else ()


def read_eval(reading: ReadContext, node: Node | None) -> PolicySyntax | None:
    """A v2-eval `eval` list. `strict`: an error that nothing matches fails (V2E-04)."""
    shape = "eval: [{expr: …, do: …}, {else: {do: …}}]"
    entries = sequence(reading, node, "E_POLICY_SHAPE", "eval", shape)
    if entries is None:
        return None
    check_else_order(reading, entries)
    rules = (_read_eval_entry(reading, entry) for entry in entries)
    return PolicySyntax(node=entries, rules=tuple(rule for rule in rules if rule is not None), strict=True)


def _read_eval_entry(reading: ReadContext, entry: Node) -> RuleSyntax | None:
    shape = "write {expr: …, do: …} or {else: {do: …}}"
    if not isinstance(entry, Mapping):
        message = f"an eval entry must be a mapping, and this is {describe(entry)}"
        reading.error("E_RULE_SHAPE", entry, message, shape)
        return None
    if "else" in entry:
        return _read_eval_else(reading, entry)
    if "when" in entry:
        hint = "write expr, or migrate to v10 (noetl migrate)"
        reading.error("E_RULE_SHAPE", entry.keys["when"], "an eval entry has no when", hint)
    condition = entry.get("expr") or entry.get("when")
    if condition is None:
        reading.error("E_RULE_SHAPE", opening(entry), "this eval entry has neither expr nor else", shape)
        return None
    when = read_condition(reading, condition, "expr")
    then = read_then(reading, entry, besides=("expr", "when"))
    return RuleSyntax(node=entry, when=when, then=then) if when is not None else None


def _read_eval_else(reading: ReadContext, entry: Mapping) -> RuleSyntax | None:
    known_keys(reading, entry, ("else",), "E_RULE_SHAPE", "an else entry", closed=True)
    inner = entry.values["else"]
    if not isinstance(inner, Mapping):
        message = f"else must hold a directive, and this is {describe(inner)}"
        reading.error("E_RULE_SHAPE", inner, message, "else: {do: continue}")
        return None
    return RuleSyntax(node=entry, when=None, then=read_then(reading, inner))
