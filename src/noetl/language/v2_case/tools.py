"""Tools and retries of v2-case, read.

A tool is one mapping with `kind`; tasks in `then` lists have labels (V2C-03, V2C-10, V2C-20). A sink is a task that
stores something, with its `args` beside its `tool` (C-07).

Retries are an ordered list of policies, or one mapping (V2C-16…18). They serve errors, polling and pagination: a policy
says when to call again, how, and what to keep.
"""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import CollectSyntax, RetrySyntax, Sugar, TaskSyntax
from noetl.language.reading.shared_checks import (
    ReadContext,
    choice,
    count,
    did_you_mean,
    duration,
    found_text,
    guard,
    is_templated,
    known_keys,
    mapping,
    opening,
    sequence,
    text,
)
from noetl.language.reading.tasks import read_task

_LABEL_FORM = "write - save: {tool: {kind: …}}"


def read_tool(reading: ReadContext, node: Node, name: Scalar | None = None) -> TaskSyntax | None:
    """One tool call. `name` is its label in a task list; a step's own tool has none."""
    if isinstance(node, Sequence):
        hint = "write further tasks in a case rule's then list, or run noetl migrate and write a v10 tool list"
        reading.error("E_TASK_KEY", opening(node), "a v2-case step has one tool, and this is a list", hint)
        return None
    if not isinstance(node, Mapping):
        return read_task(reading, node, name)
    if isinstance(node.get("spec"), Mapping):
        read_options(reading, node, "tool")
    if "eval" in node:
        hint = "write the condition in case or retry, or migrate to v10: task.spec.policy.rules"
        reading.error("E_EVAL", node.keys["eval"], "tools have no eval in this dialect", hint)
    kind = node.get("kind")
    if isinstance(kind, Scalar) and kind.value == "next":
        hint = "write it in a case rule's then list, or use the step's next"
        reading.error("E_TOOL_KIND", kind, "the kind next only stands in a then list", hint)
        return None
    task = read_task(reading, node, name)
    if task is None or "eval" not in task.inputs:
        return task
    # Noted above; left among the inputs it would be refused a second time.
    return msgspec.structs.replace(task, inputs={k: v for k, v in task.inputs.items() if k != "eval"})


def read_sink(reading: ReadContext, node: Node) -> TaskSyntax | None:
    """`{tool, args}` as one storing task (V2C-20)."""
    sink = mapping(reading, node, "E_RULE_SHAPE", "sink", "write sink: {tool: {kind: …}, args: {…}}")
    return _with_args(reading, sink, "a sink") if sink is not None else None


def read_label(reading: ReadContext, item: Node) -> tuple[Scalar, Node] | None:
    """The name and the body of one `{name: {…}}` list item."""
    if isinstance(item, Mapping) and len(item) == 1:
        ((_, name, body),) = item.items()
        return name, body
    found = f"a mapping of {len(item)} keys" if isinstance(item, Mapping) else describe(item)
    reading.error(
        "E_RULE_SHAPE", opening(item), f"a task here is one name with its tool, and this is {found}", _LABEL_FORM
    )
    return None


def read_labelled_task(reading: ReadContext, name: Scalar, body: Node) -> TaskSyntax | None:
    """`name: {tool: {…}}`; `spec` belongs to the tool, never beside it (V2C-02)."""
    what = f'the task "{name.value}"'
    # `mapping` takes null for absence and says nothing.
    if isinstance(body, Scalar) and body.value is None:
        reading.error("E_RULE_SHAPE", name, f"{what} is empty", _LABEL_FORM)
    block = mapping(reading, body, "E_RULE_SHAPE", what, _LABEL_FORM)
    return _with_args(reading, block, what, name) if block is not None else None


def read_labelled_tasks(reading: ReadContext, node: Node, what: str) -> tuple[TaskSyntax | Sugar, ...]:
    """A list of labelled tasks, or one tool mapping: the tasks of wait blocks in this dialect."""
    if isinstance(node, Mapping):
        task = read_tool(reading, node)
        return (task,) if task is not None else ()
    tasks = []
    for item in sequence(reading, node, "E_RULE_SHAPE", what, _LABEL_FORM) or ():
        label = read_label(reading, item)
        if label is None:
            continue
        if label[0].value == "next":
            reading.error("E_RULE_SHAPE", label[0], f"{what} takes no transitions", "write next in a case rule")
            continue
        task = read_labelled_task(reading, *label)
        if task is not None:
            tasks.append(task)
    return tuple(tasks)


def _with_args(reading: ReadContext, block: Mapping, what: str, name: Scalar | None = None) -> TaskSyntax | None:
    if "spec" in block:
        reading.error("E_SPEC_OPTION", block.keys["spec"], f"{what} has spec beside its tool", "move it to tool.spec")
    known_keys(reading, block, ("tool", "args", "desc", "spec"), "E_RULE_SHAPE", what, closed=True)
    args = _args(reading, block.get("args"), what)
    tool = block.get("tool")
    if tool is None:
        reading.error("E_RULE_SHAPE", opening(block), f"{what} has no tool", "write tool: {kind: …}")
        return None
    task = read_tool(reading, tool, name)
    if task is None or args is None:
        return task
    given = overlaid(task.inputs.get("args"), args) if isinstance(args, Mapping) else args
    return msgspec.structs.replace(task, inputs={**task.inputs, "args": given})


def _args(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """A mapping; or the rows to store: a list, or a template that gives one (TOOL-05)."""
    if isinstance(node, Sequence) or (isinstance(node, Scalar) and is_template(str(node.value))):
        return node
    return mapping(reading, node, "E_RULE_SHAPE", f"the args of {what}", 'write args: {name: value}, or "{{ rows }}"')


def overlaid(outer: Node | None, inner: Mapping) -> Mapping:
    """`inner` over `outer`: two spellings of one task's args, the nearer one winning."""
    if not isinstance(outer, Mapping):
        return inner
    keys, values = {**outer.keys, **inner.keys}, {**outer.values, **inner.values}
    return Mapping(keys=keys, values=values, span=inner.span, path=inner.path)


# Which `spec` options each v2-case construct has (V2C-02, VAL-18).

# The table of 002 §1.1, then what every dialect's step may say (beyond.md §1).
_OWN = {
    "step": ("case_mode", "eval_mode", "timeout", "on_error"),
    "tool": ("timeout", "retry", "async", "auth_mode"),
    "loop": ("mode", "batch_size", "on_error"),
    "retry": ("mode", "jitter", "backoff_base", "on_exhausted"),
    "when": ("cache", "eval"),
    "next": ("delay", "guard", "trigger_compensation"),
}
_SHARED = {
    "step": ("pool", "lease", "join", "concurrency", "rate", "end", "result"),
    "loop": ("max_in_flight",),
}


def read_options(reading: ReadContext, owner: Mapping, construct: str) -> Mapping | None:
    """The `spec` of `owner`, each of its keys checked. Tools may know further options; the compiler warns of those."""
    spec = mapping(reading, owner.get("spec"), "E_SPEC_OPTION", f"the spec of a {construct}")
    allowed = (*_OWN.get(construct, ()), *_SHARED.get(construct, ()))
    for key, key_node, _ in spec.items() if spec is not None else ():
        if key in allowed:
            continue
        if key == "policy":
            hint = "write case and retry, or migrate to v10"
            reading.error("E_SPEC_OPTION", key_node, "v2-case has no policy", hint)
            continue
        owners = [name for name, options in _OWN.items() if key in options]
        if owners:
            reading.error("E_SPEC_OPTION", key_node, *_belongs(key, owners, construct))
        elif construct != "tool":
            hint = did_you_mean(key, allowed)
            reading.error("E_SPEC_OPTION", key_node, f'"{key}" is not an option of a {construct}', hint)
    return spec


def _belongs(key: str, owners: list[str], construct: str) -> tuple[str, str]:
    others = " or ".join(owners)
    return f"{key} is a {others} option, not one of a {construct}", f"move it to the spec of the {others}"


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
