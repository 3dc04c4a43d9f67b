"""Options of a step's `spec`: join, concurrency, rate, end, pool, lease, timeout (O-01, WRK-03, beyond.md §1).

Everything else under `spec` is a default for the step's tasks (SPEC-02) and is not judged here.
"""

from __future__ import annotations

from noetl.language.grammar.steps import CONCURRENCY, JOIN, LEASE, RATE, STEP_SPEC
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.numbers import count, duration, found_text, timeout
from noetl.language.reading.shared_checks import ReadContext, check_keys, choice, mapping, opening, text

_CODE = "E_SPEC_OPTION"
_JOINS = JOIN["mode"].words
_JOIN_FORMS = "write all, any, active, {count: 2}, or {mode: any, rest: ignore | block | cancel}"


def check_step_options(reading: ReadContext, spec: Mapping | None) -> None:
    """Note every shared option of `spec` that holds what it cannot mean."""
    if spec is None:
        return
    if "join" in spec:
        check_join(reading, spec.values["join"])
    check_concurrency(reading, spec.get("concurrency"), "concurrency")
    _check_rate(reading, spec.get("rate"))
    choice(
        reading, spec.get("end"), STEP_SPEC["end"].words, _CODE, "end", "end: execution ends every token with this step"
    )
    text(reading, spec.get("pool"), _CODE, "pool", "pool: default")
    check_lease(reading, spec.get("lease"))
    timeout(reading, spec.get("timeout"), "timeout")


def check_join(reading: ReadContext, node: Node) -> None:
    """`all`, `any`, `active`, `{count: n}`, or the long form with `rest` (O-01)."""
    if isinstance(node, Scalar):
        choice(reading, node, _JOINS, _CODE, "join", _JOIN_FORMS)
        return
    if not isinstance(node, Mapping):
        reading.error(_CODE, node, f"join must be a word or a mapping, and this is {describe(node)}", _JOIN_FORMS)
        return
    check_keys(reading, node, JOIN, _CODE)
    if ("mode" in node) == ("count" in node):
        found = "both" if "mode" in node else "neither"
        reading.error(_CODE, opening(node), f"join needs one of mode and count, and has {found}", _JOIN_FORMS)
    choice(reading, node.get("mode"), _JOINS, _CODE, "join.mode", _JOIN_FORMS)
    # A number, not a template: how many tokens a join waits for is part of the net.
    if isinstance(size := node.get("count"), Scalar) and isinstance(size.value, str):
        message = f"join.count must be a whole number of at least 1, and this is {found_text(size)}"
        reading.error(_CODE, size, message, _JOIN_FORMS)
    else:
        count(reading, size, _CODE, "join.count", hint=_JOIN_FORMS)
    choice(reading, node.get("rest"), JOIN["rest"].words, _CODE, "join.rest")


def check_concurrency(reading: ReadContext, node: Node | None, what: str) -> None:
    """`{key, limit, on_limit}`, on a step or on the executor."""
    shape = f'{what}: {{key: "{{{{ … }}}}", limit: 1, on_limit: queue}}'
    block = mapping(reading, node, _CODE, what, shape)
    if block is None:
        return
    check_keys(reading, block, CONCURRENCY, _CODE, what=what)
    if "limit" not in block:
        reading.error(_CODE, opening(block), f"{what} needs a limit", shape)
    count(reading, block.get("limit"), _CODE, f"{what}.limit")
    choice(reading, block.get("on_limit"), CONCURRENCY["on_limit"].words, _CODE, f"{what}.on_limit")


def _check_rate(reading: ReadContext, node: Node | None) -> None:
    """`{key, limit, per}` (design.md §8)."""
    shape = 'rate: {key: "{{ … }}", limit: 10, per: 1m}'
    block = mapping(reading, node, _CODE, "rate", shape)
    if block is None:
        return
    check_keys(reading, block, RATE, _CODE)
    for key in ("limit", "per"):
        if key not in block:
            reading.error(_CODE, opening(block), f"rate needs {key}", shape)
    count(reading, block.get("limit"), _CODE, "rate.limit")
    duration(reading, block.get("per"), "rate.per")


def check_lease(reading: ReadContext, node: Node | None) -> None:
    """`{mode: single_owner, ttl, heartbeat}` (WRK-03)."""
    block = mapping(reading, node, _CODE, "lease", "lease: {mode: single_owner, ttl: 30, heartbeat: 5}")
    if block is None:
        return
    check_keys(reading, block, LEASE, _CODE)
    choice(reading, block.get("mode"), LEASE["mode"].words, _CODE, "lease.mode")
    duration(reading, block.get("ttl"), "lease.ttl")
    duration(reading, block.get("heartbeat"), "lease.heartbeat")
