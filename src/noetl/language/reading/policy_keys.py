"""What the keys of executor, step, loop and router policies hold (VAL-12, SPEC-04, LOOP-14/15, ADV-03…07, EVT-09)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.model import Construct, Key
from noetl.language.grammar.policies import DEDUPE, EMITTED_EVENT, PARTITIONING, REDUCERS, SCOPES
from noetl.language.grammar.shapes import COUNT, FIXED_COUNT, FLAG, FREE, WHOLE, Schema, ref
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.numbers import count, fixed_count, timeout, whole_number
from noetl.language.reading.scope_policies import CONTROL
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    did_you_mean,
    guard,
    mapping,
    opening,
    sequence,
    text,
)
from noetl.language.reading.step_options import check_lease
from noetl.language.reading.waits.times import duration
from noetl.net.kinds import has_policy

_CODE = "E_POLICY_SHAPE"
_LIMITS = ("max_payload_bytes", "max_task_runs", "max_step_runs", "max_depth", "max_in_flight", "lease", "message_ttl")
Check = Callable[[ReadContext, Node, str], object]


def check_parts(reading: ReadContext, policy: Mapping | None, scope: str) -> None:
    """Check each part of a scope's policy that has a shape of its own."""
    construct = SCOPES[scope]
    for key, _, value in policy.items() if policy else ():
        what = f"{scope}.spec.policy.{key}"
        if key in construct.names() and (scope, key) not in _READ_ELSEWHERE:
            _check(reading, value, construct[key], what)
        elif scope == "executor" and has_policy(reading.kinds, key):
            _any_mapping(reading, value, what)


def _check(reading: ReadContext, node: Node, key: Key, what: str) -> None:
    """One value, by what the grammar says that it holds."""
    shape = key.shape
    if key.name in _OWN_CHECKS:
        _OWN_CHECKS[key.name](reading, node, what)
    elif isinstance(shape, Construct):
        _check_block(reading, node, shape, what)
    elif "enum" in shape:
        choice(reading, node, key.words, _CODE, what)
    else:
        for known, check in _BY_SHAPE:
            if shape == known:
                check(reading, node, what)


def _check_block(reading: ReadContext, node: Node, construct: Construct, what: str) -> None:
    block = mapping(reading, node, _CODE, what, f"{what}: {{{', '.join(construct.names())}}}")
    if block is None:
        return
    check_keys(reading, block, construct, _CODE, what=what, handled=CONTROL)
    for name in construct.names():
        if name in block:
            _check(reading, block.values[name], construct[name], f"{what}.{name}")


def _any_mapping(reading: ReadContext, node: Node, what: str) -> None:
    mapping(reading, node, _CODE, what)


def _flag(reading: ReadContext, node: Node, what: str) -> None:
    boolean(reading, node, _CODE, what)


def _at_least_one(reading: ReadContext, node: Node, what: str) -> None:
    count(reading, node, _CODE, what)


def _fixed(reading: ReadContext, node: Node, what: str) -> None:
    fixed_count(reading, node, _CODE, what)


def _number(reading: ReadContext, node: Node, what: str) -> None:
    whole_number(reading, node, _CODE, what)


def _timeouts(reading: ReadContext, node: Node, what: str) -> None:
    """Defaults by tool kind, or `default` (SPEC-04)."""
    block = mapping(reading, node, _CODE, what, f"{what}: {{http: 30, default: 300}}")
    for kind, _, value in block.items() if block else ():
        timeout(reading, value, f"{what}.{kind}")


def _reducers(reading: ReadContext, node: Node, what: str) -> None:
    block = mapping(reading, node, _CODE, what, f"{what}: {{total: sum}}")
    for _, _, value in block.items() if block else ():
        choice(reading, value, REDUCERS, _CODE, "a reducer")


def _events(reading: ReadContext, node: Node, what: str) -> None:
    """Event names, or `{name, when, data}` (EVT-09)."""
    for item in sequence(reading, node, _CODE, what, f"{what}: [audit.required]") or ():
        if isinstance(item, Mapping):
            check_keys(reading, item, EMITTED_EVENT, _CODE)
            guard(reading, item.get("when"))
            if "name" not in item:
                reading.error(_CODE, opening(item), "an emitted event needs a name", "{name: audit.required}")
        text(reading, item.get("name") if isinstance(item, Mapping) else item, _CODE, "an emitted event's name")


def _limits(reading: ReadContext, node: Node, what: str) -> None:
    """Bounds of an execution (O-33). A name that nobody reads bounds nothing, and that is told."""
    block = mapping(reading, node, _CODE, what, f"{what}: {{max_payload_bytes: 65536}}")
    for key, key_node, value in block.items() if block else ():
        if key.startswith("max_"):
            fixed_count(reading, value, _CODE, f"{what}.{key}")
        if key not in _LIMITS:
            hint = did_you_mean(key, _LIMITS)
            reading.error("W_UNKNOWN_KEY", key_node, f'"{key}" is no limit and is ignored', hint)
    check_lease(reading, block.get("lease") if block else None)


def _partitioning(reading: ReadContext, node: Node, what: str) -> None:
    """`{key: expression}`, or the expression alone."""
    if isinstance(node, Mapping):
        _check_block(reading, node, PARTITIONING, what)
    elif not isinstance(node, Scalar):
        reading.error(_CODE, node, f"{what} must hold a key, and this is {describe(node)}", "{key: …}")


def _dedupe(reading: ReadContext, node: Node, what: str) -> None:
    check_dedupe(reading, node, what, _CODE)


def check_dedupe(reading: ReadContext, node: Node, what: str, code: str) -> None:
    """`{key, window?}` (ADV-04)."""
    block = mapping(reading, node, code, what, f"{what}: {{key: …, window: 1h}}")
    if block is None:
        return
    check_keys(reading, block, DEDUPE, code, what=what)
    duration(reading, block.get("window"), f"{what}.window")
    if "key" not in block:
        reading.error(code, opening(block), f"{what} needs a key", f"{what}: {{key: …}}")


# Parts whose shape says less than their check.
_OWN_CHECKS: dict[str, Check] = {
    "timeouts": _timeouts,
    "limits": _limits,
    "events": _events,
    "reducers": _reducers,
    "dedupe": _dedupe,
    "partitioning": _partitioning,
}
_BY_SHAPE: tuple[tuple[Schema, Check], ...] = (
    (FLAG, _flag),
    (FREE, _any_mapping),
    (COUNT, _at_least_one),
    (FIXED_COUNT, _fixed),
    (WHOLE, _number),
    (ref("timeout"), timeout),
)
# Admission has rules of its own; the mode and the bound of a loop may stand in two places.
_READ_ELSEWHERE = {("step", "admit"), ("loop", "mode"), ("loop", "max_in_flight")}
