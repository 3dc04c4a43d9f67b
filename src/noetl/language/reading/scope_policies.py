"""Policies of executor, step, loop and router: hints without control (VAL-11, VAL-12).

Control belongs to tasks, and each scope has its own list of keys; this module knows those lists and refuses the
rest. Admission, which has rules of its own, is read in `admission`.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.grammar.policies import SCOPES, TASK_POLICY
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.shared_checks import ReadContext, known_keys, mapping
from noetl.net.kinds import has_policy

CONTROL = ("do", "retry", "jump", "break", "continue", "fail", "rules")

_ON_ERROR = (
    "decide it in the task: task.spec.policy.rules; a step that may fail has failure: {mode: best_effort}, "
    "and next: {spec: {unguarded: always}} goes on after a failure"
)
_ELSEWHERE = dict.fromkeys(("on_error", "on_failure"), _ON_ERROR)
_CONTROL_HINT = "control belongs to task.spec.policy.rules"
# Mappings whose keys are the author's own words or tool kinds; a key "fail" in them is no action.
_FREE = ("reducers", "attributes", "data", "hints", "timeouts", "resources", "backends")


def owner_of(key: str) -> str:
    """Where a policy key belongs, as a path for hints; nothing for a key that no scope has."""
    return " or ".join(f"{scope}.spec.policy" for scope, construct in SCOPES.items() if key in construct.names())


def read_scope_policy(reading: ReadContext, node: Node | None, scope: str) -> Mapping | None:
    """The policy of a scope with its keys checked; what each holds is checked by `policy_parts`."""
    shape = f"{scope}.spec.policy holds {', '.join(SCOPES[scope].names())}"
    policy = mapping(reading, node, "E_POLICY_SHAPE", f"{scope}.spec.policy", shape)
    if policy is None:
        return None
    _check_control(reading, policy, scope)
    known = (*SCOPES[scope].names(), *_tool_policies(reading, policy, scope))
    foreign = [key for key in policy.values if key not in known and (owner_of(key) or _is_task_key(key))]
    handled = (*CONTROL, *foreign)
    where = f"{scope}.spec.policy"
    known_keys(reading, policy, known, "E_POLICY_SCOPE", where, closed=True, handled=handled, elsewhere=_ELSEWHERE)
    for key in foreign:
        owner = owner_of(key) or "task.spec.policy"
        message = f'"{key}" is not part of {scope}.spec.policy'
        reading.error("E_POLICY_SCOPE", policy.keys[key], message, f"it belongs to {owner}")
    return policy


def _tool_policies(reading: ReadContext, policy: Mapping, scope: str) -> tuple[str, ...]:
    """The keys of an executor's policy that name a tool kind with hints of its own. Only keys that no scope has are
    looked up: asking for plug-ins costs more than reading a small file."""
    if scope != "executor":
        return ()
    return tuple(key for key in policy.values if not owner_of(key) and has_policy(reading.kinds, key))


def refuse_misplaced(reading: ReadContext, spec: Mapping, scope: str, keys: tuple[str, ...]) -> None:
    """Note policy keys that were written straight under `spec`."""
    for key in keys:
        if key in spec:
            message = f'"{key}" is a policy of the {scope}, not an option'
            reading.error("E_SPEC_OPTION", spec.keys[key], message, f"move it to {scope}.spec.policy.{key}")


def refuse_control(reading: ReadContext, node: Mapping, where: str) -> None:
    """Note control actions among the keys of `node`."""
    for key in CONTROL:
        if key in node:
            message = f'"{key}" is a control action, and {where} has none'
            reading.error("E_POLICY_SCOPE", node.keys[key], message, _CONTROL_HINT)


def _is_task_key(key: str) -> bool:
    return key in TASK_POLICY.names() and key not in CONTROL


def _check_control(reading: ReadContext, policy: Mapping, scope: str) -> None:
    for key in _actions(policy):
        message = f'"{key.value}" is a control action, and {scope}.spec.policy has none'
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
            elif key != "admit" and key not in _FREE:
                yield from _actions(value)
