"""Task outcome policies: v10's `spec.policy` (VAL-06, POL-04, POL-13) and v2-eval's `eval` (V2E-03, C-15)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from noetl.language.grammar.policies import DIRECTIVE, ERROR_KEYS, REDUCERS, RETRY_KEYS, TASK_POLICY
from noetl.language.reading import shared_checks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.old_keys import WORDS_OF_OTHERS
from noetl.language.reading.playbook import Dialect, PolicySyntax, RuleSyntax, TaskSyntax, Then
from noetl.language.reading.policy_keys import owner_of
from noetl.language.reading.routers import check_else_order, read_condition, read_ordered_rules
from noetl.language.reading.shared_checks import ReadContext

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
        reading.error(
            "E_POLICY_SHAPE", shared_checks.opening(node), "a task policy has no rules, and rules is required", _SHAPE
        )
        return None
    rules = shared_checks.sequence(reading, node.values["rules"], "E_POLICY_SHAPE", "rules", _SHAPE)
    return PolicySyntax(
        node=node,
        rules=_read_rules(reading, rules) if rules else (),
        on_unmatched=shared_checks.choice(
            reading, node.get("on_unmatched"), TASK_POLICY["on_unmatched"].words, "E_POLICY_SHAPE", "on_unmatched"
        ),
        before=_read_hooks(reading, node, "before", read_hooks),
        after=_read_hooks(reading, node, "after", read_hooks),
        finally_=_read_hooks(reading, node, "finally", read_hooks),
    )


def _check_keys(reading: ReadContext, node: Mapping) -> None:
    foreign = {key: owner for key in node.values if key not in TASK_POLICY.names() and (owner := owner_of(key))}
    shared_checks.check_keys(reading, node, TASK_POLICY, "E_POLICY_SHAPE", handled=foreign, elsewhere=WORDS_OF_OTHERS)
    for key, owner in foreign.items():
        message = f'"{key}" is not part of a task policy'
        reading.error("E_POLICY_SCOPE", node.keys[key], message, f"it belongs to {owner}")
    mode = node.get("mode")
    if isinstance(mode, Scalar) and mode.value == "inclusive":
        reading.error(
            "E_RESERVED_OPTION",
            mode,
            "the rules of a task have no mode inclusive: the first rule that holds decides",
            "leave mode out",
        )
    else:
        shared_checks.choice(reading, mode, TASK_POLICY["mode"].words, "E_POLICY_SHAPE", "mode")


def _read_rules(reading: ReadContext, rules: Sequence) -> tuple[RuleSyntax, ...]:
    read = []
    for rule in read_ordered_rules(reading, rules):
        if isinstance(rule.body, Mapping):
            read.append(RuleSyntax(node=rule.node, when=rule.when, then=read_then(reading, rule.body)))
        else:
            message = f"then must be a mapping, and this is {describe(rule.body)}"
            reading.error("E_RULE_SHAPE", rule.body, message, "then: {do: continue}")
    return tuple(read)


def _read_hooks(reading: ReadContext, node: Mapping, key: str, read_hooks: TaskListReader) -> tuple[TaskSyntax, ...]:
    """Hooks have no control flow: their tasks carry no policy (POL-13)."""
    listed = shared_checks.sequence(reading, node.get(key), "E_POLICY_SHAPE", key, f"{key}: [{{name: …, kind: …}}]")
    return read_hooks(reading, listed, key) if listed else ()


def read_eval(reading: ReadContext, node: Node | None) -> PolicySyntax | None:
    """A v2-eval `eval` list. `strict`: an error that nothing matches fails (V2E-04)."""
    shape = "eval: [{expr: …, do: …}, {else: {do: …}}]"
    entries = shared_checks.sequence(reading, node, "E_POLICY_SHAPE", "eval", shape)
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
        reading.error("E_RULE_SHAPE", shared_checks.opening(entry), "this eval entry has neither expr nor else", shape)
        return None
    when = read_condition(reading, condition, "expr")
    then = read_then(reading, entry, besides=("expr", "when"))
    return RuleSyntax(node=entry, when=when, then=then) if when is not None else None


def _read_eval_else(reading: ReadContext, entry: Mapping) -> RuleSyntax | None:
    shared_checks.known_keys(reading, entry, ("else",), "E_RULE_SHAPE", "an else entry", closed=True)
    inner = entry.values["else"]
    if not isinstance(inner, Mapping):
        message = f"else must hold a directive, and this is {describe(inner)}"
        reading.error("E_RULE_SHAPE", inner, message, "else: {do: continue}")
        return None
    return RuleSyntax(node=entry, when=None, then=read_then(reading, inner))


# Directives: the actions of a task policy rule on an outcome (VAL-08, VAL-10), in v10 and v2-eval.

_RETRY_KEYS = frozenset(key.name for key in RETRY_KEYS)
_OWNERS = {"to": "jump", "error": "fail", **dict.fromkeys(_RETRY_KEYS, "retry")}
_OLDER_WRITES = {
    "set_vars": "write set_iter for this iteration, or set_ctx for the execution",
    "set_shared": "write set_ctx, with loop.spec.policy.reducers for the key",
    "set_prev": "write set_iter and read it from iter",
}
_MESSAGE = 'write do: fail, in v10 with error: "…" for a message of its own'
_ELSEWHERE = dict.fromkeys(("fail", "message", "reason", "error"), _MESSAGE)  # v2-eval has no error
_BACKOFFS = {
    Dialect.V10: DIRECTIVE["backoff"].words,
    Dialect.V2_EVAL: ("fixed", "linear", "exponential"),
}
# Two words for the same backoff (C-16).
_SAME_BACKOFF = {"fixed": "none", "none": "fixed"}


def read_then(reading: ReadContext, node: Mapping, besides: Collection[str] = ()) -> Then:
    """The directive of `node`; `besides` are keys of the rule in the same mapping (`expr` in v2-eval)."""
    _check_directive_keys(reading, node, besides)
    word = shared_checks.choice(reading, node.get("do"), DIRECTIVE["do"].words, "E_DO", "do")
    do = word or "continue"
    # Not after a misspelt `do`: the allowed other keys are not known then, and one message is enough.
    if word or "do" not in node:
        _check_company(reading, node, do)
    return Then(
        node=node,
        do=do,
        to=_read_target(reading, node) if do == "jump" else None,
        **(_read_retry(reading, node) if do == "retry" else {}),
        error=_read_error(reading, node.get("error")) if do == "fail" else None,
        **_read_writes(reading, node),
    )


def _check_directive_keys(reading: ReadContext, node: Mapping, besides: Collection[str]) -> None:
    older = reading.dialect is Dialect.V2_EVAL
    refused = ("next", "then") if older else ("next", *_OLDER_WRITES)
    handled = (*besides, *refused)
    shared_checks.check_keys(reading, node, DIRECTIVE, "E_RULE_SHAPE", handled=handled, elsewhere=_ELSEWHERE)
    if "next" in node:
        hint = "route the step's boundary event with next[].when" if older else "route the event with next.arcs[].when"
        reading.error("E_RULE_SHAPE", node.keys["next"], "a task policy cannot start a step", hint)
    if "then" in node and older:
        hint = "{expr: …, do: …}, or {else: {do: …}}"
        reading.error("E_RULE_SHAPE", node.keys["then"], "v2-eval writes the directive itself, without then", hint)
    for key, hint in _OLDER_WRITES.items():
        if key in node and not older:
            reading.error("E_SET_SCOPE", node.keys[key], f'v10 has no "{key}"', hint)


def _check_company(reading: ReadContext, node: Mapping, do: str) -> None:
    """`to` belongs to jump, the bounds to retry, `error` to fail: elsewhere they would be ignored silently."""
    for key, key_node, _ in node.items():
        owner = _OWNERS.get(key, do)
        if owner != do:
            message = f'"{key}" belongs to do: {owner}, and this rule says {do}'
            reading.error("E_RULE_SHAPE", key_node, message, f"write do: {owner}, or leave it out")


def _read_target(reading: ReadContext, node: Mapping) -> Scalar | None:
    if "to" not in node:
        hint = "to: the name of a task of this step"
        reading.error("E_JUMP_TARGET", shared_checks.opening(node), 'jump has no "to", the task to go on with', hint)
        return None
    target = shared_checks.text(reading, node.values["to"], "E_JUMP_TARGET", "to", "name a task of this step")
    if shared_checks.is_templated(target):
        hint = "write one guarded rule per target"
        reading.error("E_JUMP_TARGET", node.values["to"], "to must be the name of a task, not a template", hint)
        return None
    return target


def _read_error(reading: ReadContext, node: Node | None) -> Node | None:
    """A message, a template, or the fields of an error."""
    hint = "error: a message, {kind: …, message: …}, or a template that gives an error"
    if isinstance(node, Mapping):
        shared_checks.known_keys(reading, node, ERROR_KEYS, "E_RULE_SHAPE", "error", closed=True)
    elif node is not None and shared_checks.text(reading, node, "E_RULE_SHAPE", "error", hint) is None:
        return None
    return node


def _read_retry(reading: ReadContext, node: Mapping) -> dict[str, Any]:
    if "attempts" not in node:
        hint = "add attempts: the most runs, the first included, such as attempts: 3"
        reading.error("E_RETRY_ARGS", shared_checks.opening(node), 'retry has no "attempts"', hint)
    code = "E_RETRY_ARGS"
    return {
        "attempts": shared_checks.count(
            reading, node.get("attempts"), code, "attempts", hint="attempts counts every run"
        ),
        "backoff": _read_backoff(reading, node.get("backoff")),
        "delay": shared_checks.duration(reading, node.get("delay"), "delay", code),
        "max_delay": shared_checks.duration(reading, node.get("max_delay"), "max_delay", code),
        "jitter": _read_jitter(reading, node.get("jitter")),
        "on_exhausted": shared_checks.choice(
            reading, node.get("on_exhausted"), DIRECTIVE["on_exhausted"].words, code, "on_exhausted"
        ),
    }


def _read_backoff(reading: ReadContext, node: Node | None) -> str | None:
    allowed = _BACKOFFS[Dialect.V2_EVAL if reading.dialect is Dialect.V2_EVAL else Dialect.V10]
    found = node.value if isinstance(node, Scalar) else None
    same = _SAME_BACKOFF.get(found, "") if isinstance(found, str) else ""
    hint = f"write {same}, the word of {reading.dialect} for a constant delay" if same in allowed else ""
    word = shared_checks.choice(reading, node, allowed, "E_BACKOFF", "backoff", hint)
    # The net has one word for a constant delay, for all dialects.
    return "none" if word == "fixed" else word


def _read_jitter(reading: ReadContext, node: Node | None) -> Node | None:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node
    return shared_checks.duration(reading, node, "jitter", "E_RETRY_ARGS")


def _read_writes(reading: ReadContext, node: Mapping) -> dict[str, Any]:
    def written(key: str) -> Mapping | None:
        return shared_checks.mapping(reading, node.get(key), "E_RULE_SHAPE", key, f"{key}: {{name: value}}")

    writes: dict[str, Any] = {"set_iter": written("set_iter"), "set_ctx": written("set_ctx")}
    if reading.dialect is Dialect.V2_EVAL:
        writes |= {"set_vars": written("set_vars"), "set_shared": written("set_shared")}
        writes["set_prev"] = node.get("set_prev")
        _check_shared(reading, writes["set_shared"])
    return writes


def _check_shared(reading: ReadContext, node: Mapping | None) -> None:
    """`{key: {op, value}}`; any other value is taken as the last one (V2E-07)."""
    for _, _, value in node.items() if node else ():
        if isinstance(value, Mapping) and "op" in value:
            shared_checks.known_keys(reading, value, ("op", "value"), "E_RULE_SHAPE", "set_shared", closed=True)
            shared_checks.choice(reading, value.values["op"], REDUCERS, "E_RULE_SHAPE", "op")
            if "value" not in value:
                message = f"{shared_checks.found_text(value.values['op'])} has no value to fold"
                reading.error("E_RULE_SHAPE", shared_checks.opening(value), message, "{op: sum, value: …}")
