"""Tools of v2-case: one mapping with `kind`, labelled tasks in `then` lists, and sinks (V2C-03, V2C-10, V2C-20).

A sink is no construct of its own: it is a storing task that got its `args` beside its `tool` (C-07).
"""

from __future__ import annotations

import msgspec

from noetl.base.source import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import Sugar, TaskSyntax
from noetl.language.reading.shared_checks import ReadContext, did_you_mean, known_keys, mapping, opening, sequence
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
    if isinstance(body, Scalar) and body.value is None:
        reading.error("E_RULE_SHAPE", name, f"{what} is empty", _LABEL_FORM)
    block = mapping(reading, body, "E_RULE_SHAPE", what, _LABEL_FORM)
    return _with_args(reading, block, what, name) if block is not None else None


def read_labelled_tasks(reading: ReadContext, node: Node, what: str) -> tuple[TaskSyntax | Sugar, ...]:
    """A list of labelled tasks, or one tool mapping: what wait blocks hold in this dialect."""
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
