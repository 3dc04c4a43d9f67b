"""Directives: what a rule of a task policy does with an outcome (VAL-08, VAL-10), in v10 and v2-eval.

Whether a jump's target exists is not known here: a task list is only complete once it is normalised.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from noetl.language.grammar.policies import DIRECTIVE, ERROR_KEYS, REDUCERS, RETRY_KEYS
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.numbers import count, found_text, is_templated
from noetl.language.reading.playbook import Dialect, Then
from noetl.language.reading.shared_checks import ReadContext, check_keys, choice, known_keys, mapping, opening, text
from noetl.language.reading.waits.times import duration

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
_SAME_BACKOFF = {"fixed": "none", "none": "fixed"}  # C-16: one thing under two words


def read_then(reading: ReadContext, node: Mapping, besides: Collection[str] = ()) -> Then:
    """The directive of `node`; `besides` are keys of the rule that stand among it (`expr` in v2-eval)."""
    _check_keys(reading, node, besides)
    word = choice(reading, node.get("do"), DIRECTIVE["do"].words, "E_DO", "do")
    do = word or "continue"
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


def _check_keys(reading: ReadContext, node: Mapping, besides: Collection[str]) -> None:
    older = reading.dialect is Dialect.V2_EVAL
    refused = ("next", "then") if older else ("next", *_OLDER_WRITES)
    handled = (*besides, *refused)
    check_keys(reading, node, DIRECTIVE, "E_RULE_SHAPE", handled=handled, elsewhere=_ELSEWHERE)
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
    """`to` belongs to jump, the bounds to retry, `error` to fail: elsewhere they would be ignored without a word."""
    for key, key_node, _ in node.items():
        owner = _OWNERS.get(key, do)
        if owner != do:
            message = f'"{key}" belongs to do: {owner}, and this rule says {do}'
            reading.error("E_RULE_SHAPE", key_node, message, f"write do: {owner}, or leave it out")


def _read_target(reading: ReadContext, node: Mapping) -> Scalar | None:
    if "to" not in node:
        hint = "to: the name of a task of this step"
        reading.error("E_JUMP_TARGET", opening(node), 'jump has no "to", the task to go on with', hint)
        return None
    target = text(reading, node.values["to"], "E_JUMP_TARGET", "to", "name a task of this step")
    if is_templated(target):
        hint = "write one guarded rule per target"
        reading.error("E_JUMP_TARGET", node.values["to"], "to must be the name of a task, not a template", hint)
        return None
    return target


def _read_error(reading: ReadContext, node: Node | None) -> Node | None:
    """A message, a template, or the fields of an error."""
    hint = "error: a message, {kind: …, message: …}, or a template that gives an error"
    if isinstance(node, Mapping):
        known_keys(reading, node, ERROR_KEYS, "E_RULE_SHAPE", "error", closed=True)
    elif node is not None and text(reading, node, "E_RULE_SHAPE", "error", hint) is None:
        return None
    return node


def _read_retry(reading: ReadContext, node: Mapping) -> dict[str, Any]:
    if "attempts" not in node:
        hint = "attempts: 3 counts every run, the first included"
        reading.error("E_RETRY_ARGS", opening(node), 'retry has no "attempts", its bound', hint)
    code = "E_RETRY_ARGS"
    return {
        "attempts": count(reading, node.get("attempts"), code, "attempts", hint="attempts counts every run"),
        "backoff": _read_backoff(reading, node.get("backoff")),
        "delay": duration(reading, node.get("delay"), "delay", code),
        "max_delay": duration(reading, node.get("max_delay"), "max_delay", code),
        "jitter": _read_jitter(reading, node.get("jitter")),
        "on_exhausted": choice(
            reading, node.get("on_exhausted"), DIRECTIVE["on_exhausted"].words, code, "on_exhausted"
        ),
    }


def _read_backoff(reading: ReadContext, node: Node | None) -> str | None:
    allowed = _BACKOFFS[Dialect.V2_EVAL if reading.dialect is Dialect.V2_EVAL else Dialect.V10]
    found = node.value if isinstance(node, Scalar) else None
    same = _SAME_BACKOFF.get(found, "") if isinstance(found, str) else ""
    hint = f"write {same}, the word of {reading.dialect} for a constant delay" if same in allowed else ""
    word = choice(reading, node, allowed, "E_BACKOFF", "backoff", hint)
    return "none" if word == "fixed" else word


def _read_jitter(reading: ReadContext, node: Node | None) -> Node | None:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node
    return duration(reading, node, "jitter", "E_RETRY_ARGS")


def _read_writes(reading: ReadContext, node: Mapping) -> dict[str, Any]:
    def written(key: str) -> Mapping | None:
        return mapping(reading, node.get(key), "E_RULE_SHAPE", key, f"{key}: {{name: value}}")

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
            known_keys(reading, value, ("op", "value"), "E_RULE_SHAPE", "set_shared", closed=True)
            choice(reading, value.values["op"], REDUCERS, "E_RULE_SHAPE", "op")
            if "value" not in value:
                message = f"{found_text(value.values['op'])} has no value to fold"
                reading.error("E_RULE_SHAPE", opening(value), message, "{op: sum, value: …}")
