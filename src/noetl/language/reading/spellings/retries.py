"""`retry` blocks of v10 as rules of the task's policy, and other spellings of a retry in any dialect.

A block has its v2-case meaning: on errors unless it has a condition, with a growing delay by default. A block without a
v10 form is left unchanged, and the v10 reader refuses it.
"""

from __future__ import annotations

from noetl.base.template_names import renamed
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data, inner
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_NAMES = {
    "response": "outcome.result",
    "result": "outcome.result",
    "this": "outcome",
    "error": "outcome.error",
    "status_code": "outcome.http.status",
    "_retry.index": "_attempt",
    "_retry.count": "_attempt",
}
_BACKOFFS = {
    **dict.fromkeys(("fixed", "constant", "none"), "none"),
    **dict.fromkeys(("exponential", "linear"), ""),
}
_MODE_WORDS = ("backoff", "strategy", "mode")
_DELAYS = ("initial_delay", "delay")
_KEYS = (
    "max_attempts",
    "attempts",
    *_DELAYS,
    *_MODE_WORDS,
    "backoff_multiplier",
    "max_delay",
    "jitter",
    "on_exhausted",
)
_SHARED = ("max_delay", "jitter", "on_exhausted")
_FACTORS: dict[float, str] = {1: "none", 2: "exponential"}


def rule_of(block: Mapping, *, listed: bool) -> Mapping | None:
    """One policy of a `retry` block as a v10 rule; None when v10 has no words for it."""
    flat = _flat_policy(block)
    attempts = flat.get("max_attempts") or flat.get("attempts")
    backoff = _backoff(flat, listed=listed)
    if attempts is None or backoff is None or any(key not in ("when", *_KEYS) for key in flat.values):
        return None
    then: list[tuple[str, Node]] = [("do", model.made_text("retry", block)), ("attempts", attempts)]
    delay = flat.get("initial_delay") or flat.get("delay")
    if delay is not None:
        then += [("backoff", backoff), ("delay", delay)]
    then += [(key, flat.values[key]) for key in _SHARED if key in flat]
    when = flat.get("when")
    condition = model.made_text(model.ON_ERROR, block) if when is None else _in_outcome_names(when)
    return model.made_mapping([("when", condition), ("then", model.made_mapping(then, block))], block)


def _flat_policy(block: Mapping) -> Mapping:
    """A policy with its `then` and its `spec` beside its condition."""
    for key in ("then", "spec"):
        held = block.get(key)
        if isinstance(held, Mapping):
            block = model.merged(model.without_keys(block, key), held, block)
    return block


def _backoff(flat: Mapping, *, listed: bool) -> Scalar | None:
    """v10's word for the growth of the delay; None when it has none."""
    for key in _MODE_WORDS:
        word = flat.get(key)
        if isinstance(word, Scalar) and isinstance(word.value, str) and "backoff_multiplier" not in flat:
            return model.made_text(_BACKOFFS[word.value] or word.value, word) if word.value in _BACKOFFS else None
        if word is not None:
            return None
    factor = flat.get("backoff_multiplier")
    if factor is None:
        return model.made_text("none" if listed else "exponential", flat)
    value = data(factor)
    found = _FACTORS.get(value) if isinstance(value, int | float) else None
    return model.made_text(found, factor) if found is not None else None


def _in_outcome_names(node: Node) -> Node:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return node
    text = renamed(node.value, _NAMES) or node.value
    return node if text == node.value else model.made_text(text, node)


def rules_of(retry: Node) -> list[Mapping] | None:
    """The rules of a whole `retry` block, or None if v10 has no form for one of its policies."""
    items = [retry] if isinstance(retry, Mapping) else list(retry) if isinstance(retry, Sequence) else []
    rules = [rule_of(item, listed=item is not retry) if isinstance(item, Mapping) else None for item in items]
    found = [rule for rule in rules if rule is not None]
    return found if found and len(found) == len(rules) else None


def _give_to_tasks(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step's `retry` is one for each of its tasks that has none of its own."""
    retry, tool = node.get("retry"), node.get("tool")
    if retry is None or rules_of(retry) is None:
        return node
    if isinstance(tool, Mapping) and "kind" in tool:
        given: Node | None = tool if "retry" in tool else model.with_value(tool, "retry", retry, node.keys["retry"])
    else:
        given = _given_items(tool, retry, node.keys["retry"])
    return model.with_value(model.without_keys(node, "retry"), "tool", given) if given is not None else node


def _given_items(tool: Node | None, retry: Node, key: Scalar) -> Sequence | None:
    items: list[Node] = []
    for item in tool if isinstance(tool, Sequence) else ():
        task = item if isinstance(item, Mapping) and "kind" in item else _policy_item(item)
        if task is None:
            return None
        changed = task if "retry" in task else model.with_value(task, "retry", retry, key)
        if isinstance(item, Mapping) and task is not item:
            changed = model.with_value(item, next(iter(item.values)), changed)
        items.append(changed)
    return model.made_list(items, tool) if isinstance(tool, Sequence) and items else None


def _policy_item(item: Node) -> Mapping | None:
    inside = next(iter(item.values.values())) if isinstance(item, Mapping) and len(item) == 1 else None
    return inside if isinstance(inside, Mapping) and "kind" in inside else None


def _write_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A task's `retry` as rules: after its own rules, before their else; without rules an error still fails."""
    retry = node.get("retry")
    added = rules_of(retry) if retry is not None else None
    if added is None or retry is None:
        return node
    spec = node.get("spec")
    policy = inner(spec, "policy")
    rules = inner(policy, "rules")
    if (spec is not None and not isinstance(spec, Mapping)) or (policy is not None and not isinstance(rules, Sequence)):
        return node
    listed: list[Node] = list(rules) if isinstance(rules, Sequence) else []
    end = next((i for i, rule in enumerate(listed) if isinstance(rule, Mapping) and "else" in rule), len(listed))
    # Before the else, which would take the errors first.
    listed[end:end] = added
    # A retry with a condition does not handle the other errors, and with a policy these would be accepted.
    if policy is None and any("when" in _flat_policy(one) for one in _policies(retry)):
        listed.append(model.fail_rule(retry))
    # With other rules the order matters, and the rewrite keeps it.
    rule = "a rule with do: retry in spec.policy.rules"
    written = rule if policy else f"spec: {{policy: {{rules: {model.flow_text(listed)}}}}} in the task"
    rewriting.note_end(node.keys["retry"], '"retry"', rule, written)
    return model.with_policy_rules(node, "retry", listed, retry)


def _policies(retry: Node) -> list[Mapping]:
    items = [retry] if isinstance(retry, Mapping) else list(retry) if isinstance(retry, Sequence) else []
    return [item for item in items if isinstance(item, Mapping)]


def _name_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """v2-case: options beside `spec`, under the words of v10 and others."""
    for key, name in (("backoff", "mode"), ("strategy", "mode"), ("mode", "mode"), *((one, one) for one in _OPTIONS)):
        spec = node.get("spec")
        if key not in node or (isinstance(spec, Mapping) and name in spec):
            continue
        rewriting.note(node.keys[key], f'"{key}" of a retry', f"spec.{name}")
        node = model.moved_into(node, "spec", key, name)
    spec = node.get("spec")
    mode = spec.get("mode") if isinstance(spec, Mapping) else None
    if isinstance(spec, Mapping) and isinstance(mode, Scalar) and mode.value in ("none", "constant"):
        rewriting.note(mode, f"the mode {mode.value} of a retry", "fixed")
        node = model.with_value(node, "spec", model.with_value(spec, "mode", model.made_text("fixed", mode)))
    return node


_OPTIONS = ("jitter", "backoff_base", "on_exhausted")


def _name_attempts(node: Mapping, rewriting: Rewriting) -> Mapping:
    if "attempts" in node and "max_attempts" not in node:
        rewriting.note(node.keys["attempts"], '"attempts" of a retry', '"max_attempts"')
        node = model.with_key(node, "attempts", "max_attempts")
    return node


def _name_params(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Inputs of the next call written beside the bounds."""
    for key in ("params", "headers", "payload", "json", "data", "body", "url", "endpoint", "args"):
        inner = node.get("next_call")
        if key in node and not (isinstance(inner, Mapping) and key in inner):
            rewriting.note(node.keys[key], f'"{key}" of a retry', f"next_call.{key}")
            node = model.moved_into(node, "next_call", key, key)
    return node


SPELLINGS = (
    Spelling(
        id="step-retry",
        where=Where.STEP,
        older="`retry: {max_attempts, initial_delay, …}` on a step",
        canonical="a rule with `do: retry` in `task.spec.policy.rules`",
        dialects=(model.V10,),
        rewrite=_give_to_tasks,
    ),
    Spelling(
        id="task-retry",
        where=Where.TASK,
        older="`retry: {max_attempts, …}` on a task",
        canonical="a rule with `do: retry` in `task.spec.policy.rules`",
        dialects=(model.V10,),
        rewrite=_write_rules,
    ),
    Spelling(
        id="retry-options",
        where=Where.RETRY,
        older="`retry.backoff`, `retry.mode`, `retry.jitter`, `retry.on_exhausted`; the mode `none`",
        canonical="`backoff`, `jitter`, `on_exhausted` of a rule with `do: retry`",
        dialects=(model.V2_CASE,),
        rewrite=_name_mode,
    ),
    Spelling(
        id="retry-attempts",
        where=Where.RETRY,
        older="`retry.attempts`",
        canonical="`attempts` of a rule with `do: retry`",
        dialects=(model.V2_CASE,),
        rewrite=_name_attempts,
    ),
    Spelling(
        id="retry-params",
        where=Where.RETRY,
        older="`retry.params`, and other inputs of the next call beside the bounds",
        canonical="a task that reads `iter`, and a rule with `do: jump`",
        dialects=(model.V2_CASE,),
        rewrite=_name_params,
    ),
)
