"""What the keys of executor, step, loop and router policies hold (VAL-12, SPEC-04, LOOP-14/15, ADV-03…07, EVT-09)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.reading.directives import REDUCERS
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.numbers import count, fixed_count, timeout, whole_number
from noetl.language.reading.scope_policies import CONTROL
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    choice,
    did_you_mean,
    guard,
    known_keys,
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
    for key, _, value in policy.items() if policy else ():
        check = _PARTS.get((scope, key))
        if check is None and scope == "executor" and has_policy(reading.kinds, key):
            check = _any_mapping
        if check is not None:
            check(reading, value, f"{scope}.spec.policy.{key}")


def _words(*allowed: str) -> Check:
    return lambda reading, node, what: choice(reading, node, allowed, _CODE, what)


def _block(**fields: Check) -> Check:
    """A mapping that knows these fields and no others."""

    def check(reading: ReadContext, node: Node, what: str) -> None:
        block = mapping(reading, node, _CODE, what, f"{what}: {{{', '.join(fields)}}}")
        if block is None:
            return
        known_keys(reading, block, fields, _CODE, what, closed=True, handled=CONTROL)
        for key, field in fields.items():
            if key in block:
                field(reading, block.values[key], f"{what}.{key}")

    return check


def _any_mapping(reading: ReadContext, node: Node, what: str) -> None:
    mapping(reading, node, _CODE, what)


def _any_value(reading: ReadContext, node: Node, what: str) -> None:
    """A template or a literal; what it gives is only known at run time."""


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
            known_keys(reading, item, ("name", "when", "data"), _CODE, "an emitted event", closed=True)
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
        _block(key=_any_value)(reading, node, what)
    elif not isinstance(node, Scalar):
        reading.error(_CODE, node, f"{what} must hold a key, and this is {describe(node)}", "{key: …}")


def _dedupe(reading: ReadContext, node: Node, what: str) -> None:
    check_dedupe(reading, node, what, _CODE)


def check_dedupe(reading: ReadContext, node: Node, what: str, code: str) -> None:
    """`{key, window?}` (ADV-04)."""
    block = mapping(reading, node, code, what, f"{what}: {{key: …, window: 1h}}")
    if block is None:
        return
    known_keys(reading, block, ("key", "window"), code, what, closed=True)
    duration(reading, block.get("window"), f"{what}.window")
    if "key" not in block:
        reading.error(code, opening(block), f"{what} needs a key", f"{what}: {{key: …}}")


_FAILURE = _block(mode=_words("fail_fast", "best_effort"))
_MOMENTS = _block(timeout_s=timeout, deadline_s=timeout)
_PARTS: dict[tuple[str, str], Check] = {
    ("executor", "defaults"): _block(
        timeouts=_timeouts, resources=_any_mapping, on_unmatched=_words("continue", "fail")
    ),
    ("executor", "results"): _block(reference_first=_flag),
    ("executor", "limits"): _limits,
    ("executor", "placement"): _any_mapping,
    ("executor", "cost"): _any_mapping,
    ("executor", "failure"): _FAILURE,
    ("executor", "compensation"): _words("auto", "manual"),
    ("step", "lifecycle"): _MOMENTS,
    ("step", "failure"): _FAILURE,
    ("step", "emit"): _block(events=_events),
    ("step", "tracing"): _block(enabled=_flag, attributes=_any_mapping),
    ("step", "quotas"): _block(max_runs=_fixed, max_concurrent=_fixed),
    ("loop", "exec"): _words("distributed", "local"),
    ("loop", "ordering"): _words("index", "shuffle"),
    ("loop", "reducers"): _reducers,
    ("loop", "ctx_writes"): _words("once", "last"),
    ("loop", "backpressure"): _block(max_queue=_at_least_one),
    ("loop", "partitioning"): _partitioning,
    ("next", "priority"): _number,
    ("next", "dedupe"): _dedupe,
    ("next", "partitioning"): _partitioning,
}
