"""Retries of v2-case: an ordered list of policies, or one mapping (V2C-16…18).

One mechanism serves errors, polling and pagination alike: a policy says when to call again, how, and what to keep.
"""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.numbers import count, duration, found_text, is_templated
from noetl.language.reading.playbook import CollectSyntax, RetrySyntax
from noetl.language.reading.shared_checks import ReadContext, choice, guard, known_keys, mapping, opening, text
from noetl.language.v2_case.tools import read_options, read_sink

STRATEGIES = ("append", "push", "replace", "merge")

_POLICY_KEYS = (
    "max_attempts",
    "initial_delay",
    "delay",
    "backoff_multiplier",
    "max_delay",
    "next_call",
    "collect",
    "sink",
    "spec",
)
_ELSEWHERE = {
    **{key: f"write it as spec.{key}" for key in ("mode", "jitter", "backoff_base", "on_exhausted")},
    **dict.fromkeys(("backoff", "strategy"), "write it as spec.mode"),
    **dict.fromkeys(("attempts", "max_retries", "retries", "count"), "write max_attempts, the first call included"),
}
_FORM = "write a list of {when: …, then: {max_attempts: …}}, or one mapping with max_attempts"


def read_retry(reading: ReadContext, node: Node | None) -> tuple[RetrySyntax, ...]:
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return ()
    if isinstance(node, Mapping):
        policy = _single(reading, node)
        return (policy,) if policy is not None else ()
    if not isinstance(node, Sequence):
        reading.error(
            "E_RULE_SHAPE", opening(node), f"retry must be a list of policies, and this is {describe(node)}", _FORM
        )
        return ()
    policies = (_listed(reading, item) for item in node)
    return tuple(policy for policy in policies if policy is not None)


def _single(reading: ReadContext, node: Mapping) -> RetrySyntax | None:
    """The mapping form: one policy, on errors unless it says `when` (V2C-18)."""
    if "then" in node:
        reading.error("E_RULE_SHAPE", node.keys["then"], "a retry mapping has no then", _FORM)
        return None
    known_keys(reading, node, ("when", *_POLICY_KEYS), "E_RULE_SHAPE", "retry", closed=True, elsewhere=_ELSEWHERE)
    return _policy(reading, node, guard(reading, node.get("when")), mode="exponential")


def _listed(reading: ReadContext, node: Node) -> RetrySyntax | None:
    """The list form: `{when, then}`; without a spec the delay only grows by its own multiplier."""
    item = mapping(reading, node, "E_RULE_SHAPE", "a retry policy", _FORM)
    if item is None:
        return None
    known_keys(reading, item, ("when", "then"), "E_RULE_SHAPE", "a retry policy", closed=True)
    if "when" not in item:
        reading.error("E_RULE_SHAPE", opening(item), "this retry policy has no when", _FORM)
    when = guard(reading, item.get("when"))
    then = mapping(reading, item.get("then"), "E_RULE_SHAPE", "a retry policy's then", _FORM)
    if then is None:
        if not isinstance(item.get("then"), Sequence):
            reading.error(
                "E_RETRY_ARGS", opening(item), "this retry policy says nothing to do", "add then: {max_attempts: …}"
            )
        return None
    known_keys(reading, then, _POLICY_KEYS, "E_RULE_SHAPE", "a retry policy's then", closed=True, elsewhere=_ELSEWHERE)
    return _policy(reading, then, when, mode=None) if when is not None else None


def _policy(reading: ReadContext, node: Mapping, when: Scalar | None, mode: str | None) -> RetrySyntax:
    spec = read_options(reading, node, "retry")
    base, jitter, chosen, on_exhausted = _options(reading, spec)
    if "delay" in node and "initial_delay" in node:
        reading.error("E_RETRY_ARGS", node.keys["delay"], "delay and initial_delay are one thing", "keep one of them")
    first = node.get("initial_delay") or node.get("delay")
    multiplier = _number(reading, node.get("backoff_multiplier"), "backoff_multiplier")
    return RetrySyntax(
        node=node,
        when=when,
        max_attempts=_attempts(reading, node),
        initial_delay=duration(reading, first, "a retry's delay", "E_RETRY_ARGS"),
        multiplier=multiplier or base,
        max_delay=duration(reading, node.get("max_delay"), "max_delay", "E_RETRY_ARGS"),
        mode=chosen or mode,
        jitter=jitter,
        on_exhausted=on_exhausted,
        next_call=mapping(reading, node.get("next_call"), "E_RULE_SHAPE", "next_call", "write the inputs to change"),
        collect=_collect(reading, node.get("collect")),
        sink=read_sink(reading, node.values["sink"]) if "sink" in node else None,
    )


def _options(reading: ReadContext, spec: Mapping | None) -> tuple[Node | None, Node | None, str | None, str | None]:
    """The retry's own spec: backoff base, jitter, mode, and what happens when it runs out."""
    if spec is None:
        return None, None, None, None
    base = _number(reading, spec.get("backoff_base"), "backoff_base")
    mode = choice(reading, spec.get("mode"), ("exponential", "linear", "fixed"), "E_BACKOFF", "a retry's mode")
    on_exhausted = choice(reading, spec.get("on_exhausted"), ("fail", "continue"), "E_SPEC_OPTION", "on_exhausted")
    return base, _jitter(reading, spec.get("jitter")), mode, on_exhausted


def _jitter(reading: ReadContext, node: Node | None) -> Node | None:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node
    return _number(reading, node, "jitter")


def _attempts(reading: ReadContext, node: Mapping) -> Node | None:
    if "max_attempts" not in node:
        hint = "add max_attempts: <calls, the first one included>"
        reading.error("E_RETRY_ARGS", opening(node), "this retry has no bound", hint)
        return None
    return count(reading, node.get("max_attempts"), "E_RETRY_ARGS", "max_attempts")


def _number(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """A number that is not negative, or a template that gives one."""
    if node is None or is_templated(node):
        return node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return node
    reading.error("E_RETRY_ARGS", opening(node), f"{what} must be zero or more, and this is {found_text(node)}")
    return None


def _collect(reading: ReadContext, node: Node | None) -> CollectSyntax | None:
    form = "write collect: {path: data.items, into: pages, strategy: append}"
    block = mapping(reading, node, "E_RULE_SHAPE", "collect", form)
    if block is None:
        return None
    known_keys(reading, block, ("strategy", "path", "into"), "E_RULE_SHAPE", "collect", closed=True)
    for key in ("path", "into"):
        if key not in block:
            reading.error("E_RULE_SHAPE", opening(block), f"this collect has no {key}", form)
    path = text(reading, block.get("path"), "E_RULE_SHAPE", "collect.path", form)
    into = text(reading, block.get("into"), "E_RULE_SHAPE", "collect.into", form)
    strategy = choice(reading, block.get("strategy"), STRATEGIES, "E_RULE_SHAPE", "collect.strategy")
    if path is None or into is None:
        return None
    return CollectSyntax(node=block, path_text=str(path.value), into=str(into.value), strategy=strategy or "append")
