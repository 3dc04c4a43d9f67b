"""Options in other words: `timeout_s`, policies of a step beside its `policy`, and inputs that the compiler finds."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.spellings.model import (
    EVERYWHERE,
    V10,
    Rewriting,
    Spelling,
    Where,
    made_mapping,
    moved_into,
    renames,
    with_key,
    with_value,
)

_POLICIES = ("admit", "lifecycle", "failure", "emit")


def _move_policies(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Policies of a step that stand straight under its `spec`."""
    spec = node.get("spec")
    for key in _POLICIES:
        policy = spec.get("policy") if isinstance(spec, Mapping) else None
        if not isinstance(spec, Mapping) or key not in spec or (isinstance(policy, Mapping) and key in policy):
            continue
        rewriting.note(spec.keys[key], f"spec.{key} of a step", f"spec.policy.{key}")
        spec = moved_into(spec, "policy", key, key)
        node = with_value(node, "spec", spec)
    return node


def _name_step_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The limit of a whole step: `lifecycle.timeout_s` in v10, `spec.timeout` in the older dialects."""
    spec = node.get("spec")
    if not isinstance(spec, Mapping) or "timeout_s" not in spec or "timeout" in spec:
        return node
    key, value = spec.keys["timeout_s"], spec.values["timeout_s"]
    if rewriting.dialect.rules is not V10:
        rewriting.note(key, "spec.timeout_s of a step", "spec.timeout")
        return with_value(node, "spec", with_key(spec, "timeout_s", "timeout"))
    policy = spec.get("policy")
    if isinstance(policy, Mapping) and "lifecycle" in policy:
        return node
    rewriting.note(key, "spec.timeout_s of a step", "spec.policy.lifecycle.timeout_s")
    spec = moved_into(spec, "policy", "timeout_s", "lifecycle")
    block = spec.values["policy"]
    if isinstance(block, Mapping):
        lifecycle = made_mapping([("timeout_s", value)], value)
        spec = with_value(spec, "policy", with_value(block, "lifecycle", lifecycle))
    return with_value(node, "spec", spec)


def _name_task_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`timeout_s` of a task, beside its kind or under its spec."""
    spec = node.get("spec")
    taken = isinstance(spec, Mapping) and "timeout" in spec
    if "kind" not in node or taken or "timeout" in node:
        return node
    if "timeout_s" in node:
        rewriting.note(node.keys["timeout_s"], '"timeout_s" of a task', "spec.timeout")
        return moved_into(node, "spec", "timeout_s", "timeout")
    if isinstance(spec, Mapping) and "timeout_s" in spec:
        rewriting.note(spec.keys["timeout_s"], "spec.timeout_s of a task", "spec.timeout")
        return with_value(node, "spec", with_key(spec, "timeout_s", "timeout"))
    return node


def _name_server(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`uri` of a call to an MCP server, where no resource is read, is the address of the server."""
    kind, method = node.get("kind"), node.get("method")
    if not isinstance(kind, Scalar) or kind.value != "mcp":
        return node
    if isinstance(method, Scalar) and method.value != "tools/call":
        return node
    words = {"call": "tool", "tool_name": "tool", **({} if "command" in node else {"uri": "server"})}
    return renames("an mcp task", words)(node, rewriting)


SPELLINGS = (
    Spelling(
        id="step-policies",
        where=Where.STEP,
        older="`spec.admit`, `spec.lifecycle`, `spec.failure`, `spec.emit` of a step",
        canonical="the same under `spec.policy`",
        dialects=(V10,),
        rewrite=_move_policies,
    ),
    Spelling(
        id="step-timeout",
        where=Where.STEP,
        older="`spec.timeout_s` of a step",
        canonical="`spec.policy.lifecycle.timeout_s`",
        dialects=EVERYWHERE,
        rewrite=_name_step_timeout,
    ),
    Spelling(
        id="task-timeout",
        where=Where.TASK,
        older="`timeout_s` of a task, or `spec.timeout_s`",
        canonical="`spec.timeout`",
        dialects=EVERYWHERE,
        rewrite=_name_task_timeout,
    ),
    Spelling(
        id="task-spec-inputs",
        where=Where.TASK,
        older="inputs of a tool under `tool.spec`",
        canonical="the same beside `kind`",
        dialects=EVERYWHERE,
    ),
    Spelling(
        id="task-statement",
        where=Where.TASK,
        older="`statement`, `sql` of a SQL tool",
        canonical="`command`",
        dialects=EVERYWHERE,
    ),
    Spelling(
        id="mcp-words",
        where=Where.TASK,
        older="`{kind: mcp, uri: https://…, call: search}`",
        canonical="`{kind: mcp, server: https://…, tool: search}`",
        dialects=EVERYWHERE,
        rewrite=_name_server,
    ),
    Spelling(
        id="secret-by-name",
        where=Where.TASK,
        older="`{kind: secrets, name: api_key, provider: env}`",
        canonical="`secret: api_key` beside it",
        dialects=EVERYWHERE,
    ),
)
