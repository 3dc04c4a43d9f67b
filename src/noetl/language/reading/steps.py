"""What the steps of v10 and v2-eval have in common: words, data, loop and tasks (DOC-10, design.md §5, §8)."""

from __future__ import annotations

from typing import Any

from noetl.language.grammar.steps import RESULT
from noetl.language.reading.loops import read_loop
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.numbers import plain_text
from noetl.language.reading.shared_checks import ReadContext, check_keys, mapping, sequence, text
from noetl.language.reading.step_options import check_step_options
from noetl.language.reading.tasks import is_single, read_tool

_CODE = "E_STEP_KEY"
_OF_TASKS = ("kind", "code", "url", "endpoint", "method", "headers", "params", "payload", "command", "query", "auth")
# Keys that people write on a step and that stand somewhere else.
ELSEWHERE = {"description": "write desc", **{key: f"move it into tool: {{kind: …, {key}: …}}" for key in _OF_TASKS}}
ELSEWHERE["type"] = "move it into tool: {kind: …}"
ELSEWHERE["kind"] = "move it into tool: {kind: …}, with the inputs beside it, as noetl migrate does"
# Words of other systems for what a step has under another name, each with what to write instead.
_TIMER = "a step that waits has timer: {duration: 5s} in place of tool"
_GUARD = 'a condition stands on the arc that leads here: next: {arcs: [{step: …, when: "{{ … }}"}]}'
_LOOP = 'write loop: {in: "{{ … }}", iterator: item} beside tool'
_FAILURE = "decide it in the task: spec: {policy: {rules: [{when: …, then: {do: retry | continue | fail}}]}}"
ELSEWHERE |= {
    **dict.fromkeys(("sleep", "wait", "delay", "pause"), _TIMER),
    **dict.fromkeys(("approval", "approve", "manual", "form", "human"), "write human_task: {title: …, form: […]}"),
    **dict.fromkeys(("if", "condition", "unless", "switch"), _GUARD),
    **dict.fromkeys(("foreach", "for_each", "for", "each", "items", "with_items", "map", "iterate"), _LOOP),
    **dict.fromkeys(("retries", "on_error", "on_failure", "catch", "except"), _FAILURE),
    **dict.fromkeys(
        ("depends_on", "needs", "after", "requires"),
        "the step before leads here: it has next: {arcs: [{step: …}]}; "
        "one that waits for several has spec: {join: all}",
    ),
    **dict.fromkeys(
        ("env", "environment", "vars", "variables"),
        "give values as workload: {…} of the playbook, or as args: {…} of the step",
    ),
    **dict.fromkeys(("run", "script", "bash", "shell"), 'write tool: {kind: shell, command: "…"}'),
    **dict.fromkeys(("schedule", "cron"), 'the playbook has it: trigger: {timer: {cron: "…"}} beside workflow'),
}
ELSEWHERE["save"] = "storage is a task of its own: {kind: postgres, auth: …, table: …, args: {…}} in tool"


def read_common(reading: ReadContext, node: Mapping, name: Scalar) -> dict[str, Any]:
    """The Step fields that both dialects write alike."""
    spec = mapping(reading, node.get("spec"), _CODE, "a step's spec", "spec: {timeout: 60}")
    check_step_options(reading, spec)
    tool = node.get("tool")
    return {
        "node": node,
        "name": str(name.value),
        "name_node": name,
        "desc": plain_text(reading, node.get("desc"), _CODE, "desc"),
        "spec": spec,
        "args": mapping(reading, node.get("args"), _CODE, "args", "args: {name: value}"),
        "set_ctx": mapping(reading, node.get("set_ctx"), _CODE, "set_ctx", "set_ctx: {name: value}"),
        "result": read_result(reading, node, spec),
        "loop": read_loop(reading, node.get("loop")),
        "tasks": read_tool(reading, tool),
        "single": is_single(tool),
    }


def read_result(reading: ReadContext, node: Mapping, spec: Mapping | None) -> Mapping | None:
    """Where the step's result is kept, written as `result` or as `spec.result` (design.md §5)."""
    shape = "result: {store: {kind: …}, output_select: [path, …]}"
    written = node.get("result") or (spec.get("result") if spec else None)
    if isinstance(written, Scalar) and isinstance(written.value, str):
        name = node.get("step")
        found = f"result says where the result is kept; it does not choose a part of it, as {written.value} would"
        kept = 'keep the part by a name: set_ctx: {name: "{{ … }}"}'
        read = f", or read it where it is used: {{{{ {name.value}.field }}}}" if isinstance(name, Scalar) else ""
        reading.error(_CODE, written, found, kept + read)
        return None
    result = mapping(reading, written, _CODE, "result", shape)
    if result is None:
        return None
    check_keys(reading, result, RESULT, _CODE)
    store = mapping(reading, result.get("store"), _CODE, "result.store", shape)
    if store is not None:
        text(reading, store.get("kind"), _CODE, "result.store.kind", shape)
    for path in sequence(reading, result.get("output_select"), _CODE, "result.output_select", shape) or ():
        text(reading, path, _CODE, "a path of output_select", "output_select: [data.count]")
    return result
