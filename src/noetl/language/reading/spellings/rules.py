"""Other spellings of rules and options.

Rules: `cond` for `when`, `set` for `set_ctx`, lists of `{name, value}`, `fixed` backoff. Options: `timeout_s`,
policies of a step beside its `policy`, and inputs that the compiler finds.
"""

from __future__ import annotations

from noetl.language.grammar.policies import DIRECTIVE
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where
from noetl.language.reading.spellings.routing import CONDITIONS

DIRECTIVES = DIRECTIVE["do"].words
WRITES = ("set", "set_ctx", "set_iter", "set_vars", "set_shared", "vars")
_CONSTANT_WORDS = {model.V10: ("none", ("fixed", "constant")), model.V2_EVAL: ("fixed", ("none", "constant"))}


def _name_condition(node: Mapping, rewriting: Rewriting) -> Mapping:
    # A rule with `then` is no entry of `eval`, in any dialect.
    is_eval = rewriting.dialect is model.V2_EVAL and "then" not in node
    return model.renames("a rule", dict.fromkeys(CONDITIONS, "expr" if is_eval else "when"))(node, rewriting)


def _merge_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`then` as a list of mappings whose keys differ, or as the directive's word alone."""
    then = node.get("then")
    if isinstance(then, Scalar) and then.value in DIRECTIVES:
        rewriting.note(node.keys["then"], f"then: {then.value}", f"then: {{do: {then.value}}}")
        return model.with_value(node, "then", model.made_mapping([("do", then)], then))
    merged = _merged_mapping(then) if isinstance(then, Sequence) else None
    if merged is None:
        return node
    rewriting.note(node.keys["then"], "then as a list", "one mapping")
    return model.with_value(node, "then", merged)


def _merged_mapping(items: Sequence) -> Mapping | None:
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    for item in items:
        # Not if one key has two values, and not for a list of tasks, which is the `then` of a choose.
        if not isinstance(item, Mapping) or keys.keys() & item.keys.keys() or "kind" in item:
            return None
        keys |= item.keys
        values |= item.values
    is_action = "do" in keys or any(key in WRITES for key in keys)
    return Mapping(keys, values, items.span, items.path, made=True) if is_action else None


def read_pairs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Writes as a list of `{name, value}`, or of one-key mappings, as one mapping."""
    for key in WRITES:
        written = node.get(key)
        pairs = _pairs(written) if isinstance(written, Sequence) else None
        if pairs is not None:
            rewriting.note(node.keys[key], f"{key} as a list", f"{key}: {{name: value}}")
            node = model.with_value(node, key, pairs)
    return node


def _pairs(items: Sequence) -> Mapping | None:
    keys: dict[str, Scalar] = {}
    values: dict[str, Node] = {}
    for item in items:
        if not isinstance(item, Mapping):
            return None
        name = item.get("name")
        if isinstance(name, Scalar) and isinstance(name.value, str) and "value" in item and len(item) == 2:
            keys[name.value], values[name.value] = name, item.values["value"]
        elif len(item) == 1:
            keys |= item.keys
            values |= item.values
        else:
            return None
    return Mapping(keys, values, items.span, items.path, made=True) if keys else None


def _name_set(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`set` writes into the execution; a name that begins with `iter.`, or that the looped step reads so, into the
    iteration."""
    written = node.get("set")
    if not isinstance(written, Mapping):
        return node
    return with_writes(node, written, rewriting)


def with_writes(node: Mapping, written: Mapping, rewriting: Rewriting) -> Mapping:
    parts: dict[str, list[tuple[str, Scalar, Node]]] = {"set_ctx": [], "set_iter": []}
    for name, key, value in written.items():
        scope, _, rest = name.partition(".")
        # A bare name is written to the namespace from which the step reads it.
        is_iter = scope == "iter" if rest else name in rewriting.iter_names
        target = "set_iter" if is_iter else "set_ctx"
        parts[target].append((rest if scope in ("ctx", "iter") and rest else name, key, value))
    wanted = [target for target, entries in parts.items() if entries] or ["set_ctx"]
    if any(target in node for target in wanted):
        return node
    rewriting.note(node.keys["set"], '"set"', " and ".join(f'"{target}"' for target in wanted))
    node = model.with_key(node, "set", wanted[0])
    for target in wanted:
        keys = {name: model.made_text(name, key) if name != key.value else key for name, key, _ in parts[target]}
        values = {name: value for name, _, value in parts[target]}
        block = Mapping(keys, values, written.span, written.path, made=True)
        node = model.with_value(node, target, block, node.keys[wanted[0]])
    return node


def _name_backoff(node: Mapping, rewriting: Rewriting) -> Mapping:
    word, others = _CONSTANT_WORDS[rewriting.dialect.rules]
    backoff = node.get("backoff")
    if isinstance(backoff, Scalar) and backoff.value in others:
        rewriting.note(backoff, f"backoff: {backoff.value}", f"backoff: {word}")
        node = model.with_value(node, "backoff", model.made_text(word, backoff))
    return node


def _name_bounds(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`max_retries` counts the runs after the first one."""
    for key in ("max_retries", "retries"):
        count = node.get(key)
        number = count.value if isinstance(count, Scalar) else None
        if count is None or not isinstance(number, int) or isinstance(number, bool) or "attempts" in node:
            continue
        rewriting.note(node.keys[key], f'"{key}: {number}" of a rule', f"attempts: {number + 1}")
        node = model.with_key(node, key, "attempts")
        node = model.with_value(node, "attempts", model.made_text(number + 1, count))
    return model.renames("a rule", {"max_attempts": "attempts", "initial_delay": "delay"})(node, rewriting)


SPELLINGS = (
    Spelling(
        id="rule-cond",
        where=Where.RULE,
        older="`cond`, `condition`, `if` of a rule",
        canonical="`when`",
        dialects=model.EVERYWHERE,
        rewrite=_name_condition,
    ),
    Spelling(
        id="rule-then-list",
        where=Where.RULE,
        older="`then: [{set_ctx: …}, {do: …}]`, `then: retry`",
        canonical="`then: {do: …, set_ctx: …}`",
        dialects=(model.V10,),
        rewrite=_merge_actions,
    ),
    Spelling(
        id="set-pairs",
        where=Where.ACTION,
        older="`set_ctx: [{name: n, value: v}]`, and `set`, `set_iter`, `set_vars` so",
        canonical="`set_ctx: {n: v}`",
        dialects=model.EVERYWHERE,
        rewrite=read_pairs,
    ),
    Spelling(
        id="rule-set",
        where=Where.ACTION,
        older="`set: {name: …, iter.name: …}` of a rule",
        canonical="`set_ctx: {name: …}`, `set_iter: {name: …}`",
        dialects=(model.V10_IO, model.V2_EVAL),
        own=model.V10_IO,
        rewrite=_name_set,
    ),
    Spelling(
        id="rule-backoff-fixed",
        where=Where.ACTION,
        older="`backoff: fixed`, `backoff: constant`",
        canonical="`backoff: none`",
        own=model.V10_IO,
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_name_backoff,
    ),
    Spelling(
        id="rule-max-attempts",
        where=Where.ACTION,
        older="`max_attempts`, `max_retries`, `initial_delay` of a rule",
        canonical="`attempts`, `delay`",
        dialects=(model.V10, model.V2_EVAL),
        rewrite=_name_bounds,
    ),
)


_POLICIES = ("admit", "lifecycle", "failure", "emit")


def _move_policies(node: Mapping, rewriting: Rewriting) -> Mapping:
    """Policies of a step directly under its `spec`."""
    spec = node.get("spec")
    for key in _POLICIES:
        policy = spec.get("policy") if isinstance(spec, Mapping) else None
        if not isinstance(spec, Mapping) or key not in spec or (isinstance(policy, Mapping) and key in policy):
            continue
        rewriting.note(spec.keys[key], f"spec.{key} of a step", f"spec.policy.{key}")
        spec = model.moved_into(spec, "policy", key, key)
        node = model.with_value(node, "spec", spec)
    return node


def _name_step_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The limit of a whole step: `lifecycle.timeout_s` in v10, `spec.timeout` in the older dialects."""
    spec = node.get("spec")
    if not isinstance(spec, Mapping) or "timeout_s" not in spec or "timeout" in spec:
        return node
    key, value = spec.keys["timeout_s"], spec.values["timeout_s"]
    if rewriting.dialect.rules is not model.V10:
        rewriting.note(key, "spec.timeout_s of a step", "spec.timeout")
        return model.with_value(node, "spec", model.with_key(spec, "timeout_s", "timeout"))
    policy = spec.get("policy")
    if isinstance(policy, Mapping) and "lifecycle" in policy:
        return node
    place = "spec.policy.lifecycle.timeout_s"
    written = f"spec: {{policy: {{lifecycle: {{timeout_s: {model.flow_text(value)}}}}}}}"
    rewriting.note_end(key, "spec.timeout_s of a step", place, place if policy or len(spec) > 1 else written)
    spec = model.moved_into(spec, "policy", "timeout_s", "lifecycle")
    block = spec.values["policy"]
    if isinstance(block, Mapping):
        lifecycle = model.made_mapping([("timeout_s", value)], value)
        spec = model.with_value(spec, "policy", model.with_value(block, "lifecycle", lifecycle))
    return model.with_value(node, "spec", spec)


def _name_task_timeout(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`timeout_s` of a task, beside its kind or under its spec."""
    spec = node.get("spec")
    taken = isinstance(spec, Mapping) and "timeout" in spec
    if "kind" not in node or taken or "timeout" in node:
        return node
    if "timeout_s" in node:
        rewriting.note(node.keys["timeout_s"], '"timeout_s" of a task', "spec.timeout")
        return model.moved_into(node, "spec", "timeout_s", "timeout")
    if isinstance(spec, Mapping) and "timeout_s" in spec:
        rewriting.note(spec.keys["timeout_s"], "spec.timeout_s of a task", "spec.timeout")
        return model.with_value(node, "spec", model.with_key(spec, "timeout_s", "timeout"))
    return node


def _name_server(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`uri` of a call to an MCP server, where no resource is read, is the address of the server."""
    kind, method = node.get("kind"), node.get("method")
    if not isinstance(kind, Scalar) or kind.value != "mcp":
        return node
    if isinstance(method, Scalar) and method.value != "tools/call":
        return node
    words = {"call": "tool", "tool_name": "tool", **({} if "command" in node else {"uri": "server"})}
    return model.renames("an mcp task", words)(node, rewriting)


OPTION_SPELLINGS = (
    Spelling(
        id="step-policies",
        where=Where.STEP,
        older="`spec.admit`, `spec.lifecycle`, `spec.failure`, `spec.emit` of a step",
        canonical="the same under `spec.policy`",
        dialects=(model.V10,),
        rewrite=_move_policies,
    ),
    Spelling(
        id="step-timeout",
        where=Where.STEP,
        older="`spec.timeout_s` of a step",
        canonical="`spec.policy.lifecycle.timeout_s`",
        dialects=model.EVERYWHERE,
        rewrite=_name_step_timeout,
    ),
    Spelling(
        id="task-timeout",
        where=Where.TASK,
        older="`timeout_s` of a task, or `spec.timeout_s`",
        canonical="`spec.timeout`",
        dialects=model.EVERYWHERE,
        rewrite=_name_task_timeout,
    ),
    Spelling(
        id="task-spec-inputs",
        where=Where.TASK,
        older="inputs of a tool under `tool.spec`",
        canonical="the same beside `kind`",
        dialects=model.EVERYWHERE,
    ),
    Spelling(
        id="task-statement",
        where=Where.TASK,
        older="`statement`, `sql` of a SQL tool",
        canonical="`command`",
        dialects=model.EVERYWHERE,
    ),
    Spelling(
        id="mcp-words",
        where=Where.TASK,
        older="`{kind: mcp, uri: https://…, call: search}`",
        canonical="`{kind: mcp, server: https://…, tool: search}`",
        dialects=model.EVERYWHERE,
        rewrite=_name_server,
    ),
    Spelling(
        id="secret-by-name",
        where=Where.TASK,
        older="`{kind: secrets, name: api_key, provider: env}`",
        canonical="`secret: api_key` beside it",
        dialects=model.EVERYWHERE,
    ),
)
