"""Checks of a step's `spec`, and of the policies of executor, step, loop and router.

Options of `spec`: join, concurrency, rate, end, pool, lease, timeout (O-01, WRK-03, beyond.md §1). Everything else
under `spec` is a default for the step's tasks (SPEC-02) and is not checked here. Policies: the values of their keys
(VAL-12, SPEC-04, LOOP-14/15, ADV-03…07, EVT-09), and that they hold settings only, no actions (VAL-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.language.grammar.model import COUNT, FIXED_COUNT, FLAG, FREE, WHOLE, Construct, Key, Schema, ref
from noetl.language.grammar.policies import DEDUPE, EMITTED_EVENT, PARTITIONING, REDUCERS, SCOPES, TASK_POLICY
from noetl.language.grammar.steps import CONCURRENCY, JOIN, LEASE, RATE, STEP_SPEC
from noetl.language.reading import shared_checks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.net.kinds import has_policy

_STEP_CODE = "E_SPEC_OPTION"
_JOINS = JOIN["mode"].words
_JOIN_FORMS = "write all, any, active, {count: 2}, or {mode: any, rest: ignore | block | cancel}"


def check_step_options(reading: shared_checks.ReadContext, spec: Mapping | None) -> None:
    """Report every shared option of `spec` with an invalid value."""
    if spec is None:
        return
    if "join" in spec:
        check_join(reading, spec.values["join"])
    check_concurrency(reading, spec.get("concurrency"), "concurrency")
    _check_rate(reading, spec.get("rate"))
    shared_checks.choice(
        reading,
        spec.get("end"),
        STEP_SPEC["end"].words,
        _STEP_CODE,
        "end",
        "end: execution ends every token with this step",
    )
    shared_checks.text(reading, spec.get("pool"), _STEP_CODE, "pool", "pool: default")
    check_lease(reading, spec.get("lease"))
    shared_checks.timeout(reading, spec.get("timeout"), "timeout")


def check_join(reading: shared_checks.ReadContext, node: Node) -> None:
    """`all`, `any`, `active`, `{count: n}`, or the long form with `rest` (O-01)."""
    if isinstance(node, Scalar):
        shared_checks.choice(reading, node, _JOINS, _STEP_CODE, "join", _JOIN_FORMS)
        return
    if not isinstance(node, Mapping):
        reading.error(_STEP_CODE, node, f"join must be a word or a mapping, and this is {describe(node)}", _JOIN_FORMS)
        return
    shared_checks.check_keys(reading, node, JOIN, _STEP_CODE)
    if ("mode" in node) == ("count" in node):
        found = "both" if "mode" in node else "neither"
        reading.error(
            _STEP_CODE, shared_checks.opening(node), f"join needs one of mode and count, and has {found}", _JOIN_FORMS
        )
    shared_checks.choice(reading, node.get("mode"), _JOINS, _STEP_CODE, "join.mode", _JOIN_FORMS)
    # A number, not a template: how many tokens a join waits for is part of the net.
    if isinstance(size := node.get("count"), Scalar) and isinstance(size.value, str):
        message = f"join.count must be a whole number of at least 1, and this is {shared_checks.found_text(size)}"
        reading.error(_STEP_CODE, size, message, _JOIN_FORMS)
    else:
        shared_checks.count(reading, size, _STEP_CODE, "join.count", hint=_JOIN_FORMS)
    shared_checks.choice(reading, node.get("rest"), JOIN["rest"].words, _STEP_CODE, "join.rest")


def check_concurrency(reading: shared_checks.ReadContext, node: Node | None, what: str) -> None:
    """`{key, limit, on_limit}`, on a step or on the executor."""
    shape = f'{what}: {{key: "{{{{ … }}}}", limit: 1, on_limit: queue}}'
    block = shared_checks.mapping(reading, node, _STEP_CODE, what, shape)
    if block is None:
        return
    shared_checks.check_keys(reading, block, CONCURRENCY, _STEP_CODE, what=what)
    if "limit" not in block:
        reading.error(_STEP_CODE, shared_checks.opening(block), f"{what} needs a limit", shape)
    shared_checks.count(reading, block.get("limit"), _STEP_CODE, f"{what}.limit")
    shared_checks.choice(reading, block.get("on_limit"), CONCURRENCY["on_limit"].words, _STEP_CODE, f"{what}.on_limit")


def _check_rate(reading: shared_checks.ReadContext, node: Node | None) -> None:
    """`{key, limit, per}` (design.md §8)."""
    shape = 'rate: {key: "{{ … }}", limit: 10, per: 1m}'
    block = shared_checks.known_block(reading, node, RATE, _STEP_CODE, "rate", shape)
    if block is None:
        return
    for key in ("limit", "per"):
        if key not in block:
            reading.error(_STEP_CODE, shared_checks.opening(block), f"rate needs {key}", shape)
    shared_checks.count(reading, block.get("limit"), _STEP_CODE, "rate.limit")
    shared_checks.duration(reading, block.get("per"), "rate.per")


def check_lease(reading: shared_checks.ReadContext, node: Node | None) -> None:
    """`{mode: single_owner, ttl, heartbeat}` (WRK-03)."""
    block = shared_checks.known_block(
        reading, node, LEASE, _STEP_CODE, "lease", "lease: {mode: single_owner, ttl: 30, heartbeat: 5}"
    )
    if block is None:
        return
    shared_checks.choice(reading, block.get("mode"), LEASE["mode"].words, _STEP_CODE, "lease.mode")
    shared_checks.duration(reading, block.get("ttl"), "lease.ttl")
    shared_checks.duration(reading, block.get("heartbeat"), "lease.heartbeat")


_CODE = "E_POLICY_SHAPE"
_LIMITS = ("max_payload_bytes", "max_task_runs", "max_step_runs", "max_depth", "max_in_flight", "lease", "message_ttl")
Check = Callable[[shared_checks.ReadContext, Node, str], object]


def check_parts(reading: shared_checks.ReadContext, policy: Mapping | None, scope: str) -> None:
    """Check each part of a scope's policy that has a shape of its own."""
    construct = SCOPES[scope]
    for key, _, value in policy.items() if policy else ():
        what = f"{scope}.spec.policy.{key}"
        if key in construct.names() and (scope, key) not in _READ_ELSEWHERE:
            _check(reading, value, construct[key], what)
        elif scope == "executor" and has_policy(reading.kinds, key):
            shared_checks.mapping(reading, value, _CODE, what)


def _check(reading: shared_checks.ReadContext, node: Node, key: Key, what: str) -> None:
    """One value, by what the grammar says that it holds."""
    shape = key.shape
    if key.name in _OWN_CHECKS:
        _OWN_CHECKS[key.name](reading, node, what)
    elif isinstance(shape, Construct):
        _check_block(reading, node, shape, what)
    elif "enum" in shape:
        shared_checks.choice(reading, node, key.words, _CODE, what)
    else:
        for known, check in _BY_SHAPE:
            if shape == known:
                check(reading, node, _CODE, what)


def _check_block(reading: shared_checks.ReadContext, node: Node, construct: Construct, what: str) -> None:
    block = shared_checks.mapping(reading, node, _CODE, what, f"{what}: {{{', '.join(construct.names())}}}")
    if block is None:
        return
    shared_checks.check_keys(reading, block, construct, _CODE, what=what, handled=CONTROL)
    for name in construct.names():
        if name in block:
            _check(reading, block.values[name], construct[name], f"{what}.{name}")


def _timeouts(reading: shared_checks.ReadContext, node: Node, what: str) -> None:
    """Defaults by tool kind, or `default` (SPEC-04)."""
    block = shared_checks.mapping(reading, node, _CODE, what, f"{what}: {{http: 30, default: 300}}")
    for kind, _, value in block.items() if block else ():
        shared_checks.timeout(reading, value, f"{what}.{kind}")


def _reducers(reading: shared_checks.ReadContext, node: Node, what: str) -> None:
    block = shared_checks.mapping(reading, node, _CODE, what, f"{what}: {{total: sum}}")
    for _, _, value in block.items() if block else ():
        shared_checks.choice(reading, value, REDUCERS, _CODE, "a reducer")


def _events(reading: shared_checks.ReadContext, node: Node, what: str) -> None:
    """Event names, or `{name, when, data}` (EVT-09)."""
    for item in shared_checks.sequence(reading, node, _CODE, what, f"{what}: [audit.required]") or ():
        if isinstance(item, Mapping):
            shared_checks.check_keys(reading, item, EMITTED_EVENT, _CODE)
            shared_checks.guard(reading, item.get("when"))
            if "name" not in item:
                reading.error(
                    _CODE, shared_checks.opening(item), "an emitted event needs a name", "{name: audit.required}"
                )
        shared_checks.text(
            reading, item.get("name") if isinstance(item, Mapping) else item, _CODE, "an emitted event's name"
        )


def _limits(reading: shared_checks.ReadContext, node: Node, what: str) -> None:
    """Bounds of an execution (O-33). An unknown name would have no effect, so it gets a diagnostic."""
    block = shared_checks.mapping(reading, node, _CODE, what, f"{what}: {{max_payload_bytes: 65536}}")
    for key, key_node, value in block.items() if block else ():
        if key.startswith("max_"):
            shared_checks.fixed_count(reading, value, _CODE, f"{what}.{key}")
        if key not in _LIMITS:
            hint = shared_checks.did_you_mean(key, _LIMITS)
            reading.error("W_UNKNOWN_KEY", key_node, f'"{key}" is no limit and is ignored', hint)
    check_lease(reading, block.get("lease") if block else None)
    shared_checks.duration(reading, block.get("message_ttl") if block else None, f"{what}.message_ttl")


def _partitioning(reading: shared_checks.ReadContext, node: Node, what: str) -> None:
    """`{key: expression}`, or the expression alone."""
    if isinstance(node, Mapping):
        _check_block(reading, node, PARTITIONING, what)
    elif not isinstance(node, Scalar):
        reading.error(_CODE, node, f"{what} must hold a key, and this is {describe(node)}", "{key: …}")


def check_dedupe(reading: shared_checks.ReadContext, node: Node, what: str, code: str) -> None:
    """`{key, window?}` (ADV-04)."""
    block = shared_checks.mapping(reading, node, code, what, f"{what}: {{key: …, window: 1h}}")
    if block is None:
        return
    shared_checks.check_keys(reading, block, DEDUPE, code, what=what)
    shared_checks.duration(reading, block.get("window"), f"{what}.window")
    if "key" not in block:
        reading.error(code, shared_checks.opening(block), f"{what} needs a key", f"{what}: {{key: …}}")


# Parts that need more than a check of their shape.
_OWN_CHECKS: dict[str, Check] = {
    "timeouts": _timeouts,
    "limits": _limits,
    "events": _events,
    "reducers": _reducers,
    "dedupe": lambda reading, node, what: check_dedupe(reading, node, what, _CODE),
    "partitioning": _partitioning,
}
_BY_SHAPE: tuple[tuple[Schema, Callable[[shared_checks.ReadContext, Node, str, str], object]], ...] = (
    (FLAG, shared_checks.boolean),
    (FREE, shared_checks.mapping),
    (COUNT, shared_checks.count),
    (FIXED_COUNT, shared_checks.fixed_count),
    (WHOLE, shared_checks.whole_number),
    (ref("timeout"), lambda reading, node, _code, what: shared_checks.timeout(reading, node, what)),
)
# Admission has rules of its own; the mode and the bound of a loop have two possible places.
_READ_ELSEWHERE = {("step", "admit"), ("loop", "mode"), ("loop", "max_in_flight")}


# Policies of executor, step, loop and router: hints without control (VAL-11, VAL-12).

CONTROL = ("do", "retry", "jump", "break", "continue", "fail", "rules")

_ON_ERROR = (
    "decide it in the task: task.spec.policy.rules; a step that may fail has failure: {mode: best_effort}, "
    "and next: {spec: {unguarded: always}} goes on after a failure"
)
_ELSEWHERE = dict.fromkeys(("on_error", "on_failure"), _ON_ERROR)
_CONTROL_HINT = "rules for the outcome of a task are in task.spec.policy.rules"
# Mappings whose keys are names of the author or tool kinds; a key "fail" in them is no action.
_FREE = ("reducers", "attributes", "data", "hints", "timeouts", "resources", "backends")


def owner_of(key: str) -> str:
    """Where a policy key belongs, as a path for hints; nothing for a key that no scope has."""
    return " or ".join(f"{scope}.spec.policy" for scope, construct in SCOPES.items() if key in construct.names())


def read_scope_policy(reading: shared_checks.ReadContext, node: Node | None, scope: str) -> Mapping | None:
    """The policy of a scope with its keys checked; their values are checked by `policy_parts`."""
    shape = f"{scope}.spec.policy holds {', '.join(SCOPES[scope].names())}"
    policy = shared_checks.mapping(reading, node, "E_POLICY_SHAPE", f"{scope}.spec.policy", shape)
    if policy is None:
        return None
    _check_control(reading, policy, scope)
    known = (*SCOPES[scope].names(), *_tool_policies(reading, policy, scope))
    foreign = [key for key in policy.values if key not in known and (owner_of(key) or _is_task_key(key))]
    handled = (*CONTROL, *foreign)
    where = f"{scope}.spec.policy"
    shared_checks.known_keys(
        reading, policy, known, "E_POLICY_SCOPE", where, closed=True, handled=handled, elsewhere=_ELSEWHERE
    )
    for key in foreign:
        owner = owner_of(key) or "task.spec.policy"
        message = f'"{key}" is not part of {scope}.spec.policy'
        reading.error("E_POLICY_SCOPE", policy.keys[key], message, f"it belongs to {owner}")
    return policy


def _tool_policies(reading: shared_checks.ReadContext, policy: Mapping, scope: str) -> tuple[str, ...]:
    """The keys of an executor's policy that name a tool kind with hints of its own. Only keys that no scope has are
    looked up: searching for plug-ins costs more than reading a small file."""
    if scope != "executor":
        return ()
    return tuple(key for key in policy.values if not owner_of(key) and has_policy(reading.kinds, key))


def refuse_misplaced(reading: shared_checks.ReadContext, spec: Mapping, scope: str, keys: tuple[str, ...]) -> None:
    """Note policy keys that were written straight under `spec`."""
    for key in keys:
        if key in spec:
            message = f'"{key}" is a policy of the {scope}, not an option'
            reading.error("E_SPEC_OPTION", spec.keys[key], message, f"move it to {scope}.spec.policy.{key}")


def refuse_control(reading: shared_checks.ReadContext, node: Mapping, where: str) -> None:
    """Note control actions among the keys of `node`."""
    for key in CONTROL:
        if key in node:
            message = f'"{key}" decides about a task and is not allowed in {where}'
            reading.error("E_POLICY_SCOPE", node.keys[key], message, _CONTROL_HINT)


def _is_task_key(key: str) -> bool:
    return key in TASK_POLICY.names() and key not in CONTROL


def _check_control(reading: shared_checks.ReadContext, policy: Mapping, scope: str) -> None:
    for key in _actions(policy):
        message = f'"{key.value}" decides about a task and is not allowed in {scope}.spec.policy'
        reading.error("E_POLICY_SCOPE", key, message, _CONTROL_HINT)


def _actions(node: Node) -> Iterator[Scalar]:
    """The keys of every control action below `node`."""
    if isinstance(node, Sequence):
        for item in node:
            yield from _actions(item)
    if isinstance(node, Mapping):
        for key, key_node, value in node.items():
            if key in CONTROL:
                yield key_node
            # Admission has rules too, but they allow or deny and contain no actions.
            elif key != "admit" and key not in _FREE:
                yield from _actions(value)
