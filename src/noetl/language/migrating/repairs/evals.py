"""Repairs of `eval`: v2-eval's rules of a task as a policy, with its default for unmatched errors written out."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    with_key,
    with_value,
    without_keys,
)

ON_ERROR = "{{ outcome.status == 'error' }}"


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
        written += [_when(made_text(ON_ERROR, entries), _do("fail", entries), entries), _otherwise(entries)]
    held = spec if isinstance(spec, Mapping) else made_mapping((), entries)
    policy = made_mapping([("rules", made_list(written, entries))], entries)
    return with_value(without_keys(node, "eval"), "spec", with_value(held, "policy", policy), node.keys["eval"])


def _rule(entry: Node) -> Mapping | None:
    """`{expr, do, …}` or `{else: {do, …}}` as a rule."""
    if not isinstance(entry, Mapping):
        return None
    if "else" in entry:
        inner = entry.values["else"]
        if not isinstance(inner, Mapping) or len(entry) > 1:
            return None
        return entry if "then" in inner else with_value(entry, "else", made_mapping([("then", inner)], inner))
    condition = next((key for key in ("expr", "when", "cond") if key in entry), None)
    if condition is None:
        return None
    named = entry if condition == "when" else with_key(entry, condition, "when")
    if "then" in named:
        return named
    then = without_keys(named, "when")
    if not len(then):
        then = _do("continue", entry)
    keys = {"when": named.keys["when"], "then": made_text("then", entry)}
    return Mapping(keys, {"when": named.values["when"], "then": then}, entry.span, entry.path, made=True)


def _do(word: str, at: Node) -> Mapping:
    return made_mapping([("do", made_text(word, at))], at)


def _when(condition: Scalar, then: Mapping, at: Node) -> Mapping:
    return made_mapping([("when", condition), ("then", then)], at)


def _otherwise(at: Node) -> Mapping:
    return made_mapping([("else", made_mapping([("then", _do("continue", at))], at))], at)


def name_variables(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's variables live in `ctx`, where they stay after the step."""
    if "set_vars" not in node or "set_ctx" in node:
        return node
    rewriting.note(node.keys["set_vars"], "set_vars (a variable of this step)", "set_ctx, which stays after the step")
    return with_key(node, "set_vars", "set_ctx")
