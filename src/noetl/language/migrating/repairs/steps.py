"""Repairs of steps: `pipe`, inputs of a task beside its step, `policy`, `on_error` and `sink`."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.reading.spellings.trees import (
    made_list,
    made_mapping,
    made_text,
    moved_into,
    with_key,
    with_names,
    with_value,
    without_keys,
)
from noetl.language.v2_case.port import is_nothing


def name_pipe(node: Mapping, rewriting: Rewriting) -> Mapping:
    if "pipe" in node and "tool" not in node:
        rewriting.note(node.keys["pipe"], '"pipe"', '"tool"')
        node = with_key(node, "pipe", "tool")
    return node


def add_noop(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step that only ends a path says so with a task that does nothing; one called `end` needs none."""
    name = node.get("step")
    if not isinstance(name, Scalar) or name.value == "end" or not is_nothing(node):
        return node
    rewriting.note(name, "a step that does nothing", "tool: {kind: noop}")
    return with_value(node, "tool", made_mapping([("kind", made_text("noop", name))], name), name)


def move_policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if "policy" in node and ("kind" in node or "step" in node) and not (isinstance(spec, Mapping) and "policy" in spec):
        rewriting.note(node.keys["policy"], '"policy"', "spec.policy")
        node = moved_into(node, "spec", "policy", "policy")
    return node


def list_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`spec.policy` of a task as the list of its rules."""
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    if "kind" not in node or not isinstance(spec, Mapping) or not isinstance(policy, Sequence):
        return node
    rewriting.note(spec.keys["policy"], "a policy as a list", "policy: {rules: […]}")
    return with_value(node, "spec", with_value(spec, "policy", made_mapping([("rules", policy)], policy)))


def write_failure_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on_error: continue` lets the step fail and go on."""
    spec = node.get("spec")
    mode = spec.get("on_error") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(mode, Scalar) or mode.value not in ("fail", "continue"):
        return node
    rewriting.note(mode, f"spec.on_error: {mode.value}", "spec.policy.failure.mode")
    kept = without_keys(spec, "on_error")
    if mode.value == "continue":
        failure = made_mapping([("mode", made_text("best_effort", mode))], mode)
        policy = kept.get("policy")
        held = policy if isinstance(policy, Mapping) else made_mapping((), mode)
        kept = with_value(kept, "policy", with_value(held, "failure", failure))
    return with_value(node, "spec", kept) if len(kept) else without_keys(node, "spec")


def write_sink(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`sink: {tool, args}` as the last task, which reads the result before it."""
    sink = node.get("sink")
    inner = sink.get("tool") if isinstance(sink, Mapping) else None
    if not isinstance(sink, Mapping) or not isinstance(inner, Mapping) or set(sink.values) - {"tool", "args", "desc"}:
        return node
    key = node.keys["sink"]
    rewriting.note(key, '"sink"', "a task that stores, at the end of tool")
    task = inner
    if "args" in sink:
        task = with_value(task, "args", sink.values["args"], sink.keys["args"])
    task = _named(task, f"{_step_name(node)}_sink", key)
    task_names = {"result": "_prev", "response": "_prev", "this.data": "_prev", "vars": "ctx"}
    written = with_names(task, task_names)
    tasks = [*task_list(node), written]
    return with_value(without_keys(node, "sink"), "tool", made_list(tasks, node.get("tool") or sink), key)


def task_list(node: Mapping) -> list[Node]:
    """The tasks of a step as a list; a single one gets the name that it has by itself."""
    tool = node.get("tool")
    if isinstance(tool, Sequence):
        return list(tool)
    if isinstance(tool, Mapping):
        return [_named(tool, f"{_step_name(node)}_task", node.keys["tool"])]
    return []


def _named(task: Mapping, name: str, at: Scalar) -> Mapping:
    if "name" in task:
        return task
    keys = {"name": made_text("name", at), **task.keys}
    values: dict[str, Node] = {"name": made_text(name, at), **task.values}
    return Mapping(keys, values, task.span, task.path, made=True)


def _step_name(node: Mapping) -> str:
    name = node.get("step")
    return str(name.value) if isinstance(name, Scalar) else "step"
