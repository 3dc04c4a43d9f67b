"""The common parts of v10 and v2-eval steps (`read_common`): texts, data, result, loop and tasks (DOC-10).

A loop has `in`, `iterator`, `spec`, and perhaps a loop inside (VAL-03, SPEC-06, LOOP-07, C-08). What differs between
the two dialects is read in `reader.py`.
"""

from __future__ import annotations

from typing import Any

from noetl.language.grammar.steps import LOOP, LOOP_SPEC, RESULT
from noetl.language.reading import shared_checks
from noetl.language.reading.nodes import Mapping, Node, Scalar, data
from noetl.language.reading.old_keys import WORDS_OF_OTHERS
from noetl.language.reading.playbook import Dialect, LoopSyntax
from noetl.language.reading.policy_keys import check_parts, check_step_options, read_scope_policy
from noetl.language.reading.tasks import is_single, read_tool

_SHAPE = 'loop: {in: "{{ … }}", iterator: name, spec: {mode: sequential}}'
# Spellings of other dialects, and their place here.
_REPLACED = {
    "collection": "loop.in",
    "element": "loop.iterator",
    "mode": "loop.spec.mode",
    "max_in_flight": "loop.spec.max_in_flight",
    "batch_size": "loop.spec.max_in_flight",
    "policy": "loop.spec.policy",
}
_FILTER = (
    "filter the list itself: in: \"{{ list | selectattr('key', 'gt', 1) | list }}\"; "
    "or begin with a noop whose rule says do: break"
)
# Words for which elements, how long, and what after a failure, each with what to write instead.
FILTERS = {
    **dict.fromkeys(("where", "filter", "when", "if"), _FILTER),
    **dict.fromkeys(
        ("until", "while", "break_when", "stop_when"), "write loop.spec.complete_when, looked at after each iteration"
    ),
    **dict.fromkeys(
        ("on_error", "on_failure", "continue_on_error"), "write step.spec.policy.failure.mode: best_effort"
    ),
    **dict.fromkeys(("limit", "max_items", "take", "offset"), 'take a part of the list: in: "{{ list[:10] }}"'),
    **dict.fromkeys(("chunk", "chunk_size", "batch"), 'make lists of some each: in: "{{ list | batch(10) | list }}"'),
    **dict.fromkeys(("order_by", "sort", "sort_by"), "sort the list: in: \"{{ list | sort(attribute='key') }}\""),
    **dict.fromkeys(("enumerate", "index", "with_index"), "iter.index is the position, from 0"),
}
REPLACED_OPTIONS = {"batch_size": "loop.spec.max_in_flight", "on_error": "step.spec.policy.failure.mode"}


def read_loop(reading: shared_checks.ReadContext, node: Node | None) -> LoopSyntax | None:
    """A loop and the loops inside it."""
    if node is None:
        return None
    loop = shared_checks.mapping(reading, node, "E_LOOP_SHAPE", "loop", _SHAPE)
    if loop is None:
        if isinstance(node, Scalar) and node.value is None:
            reading.error("E_LOOP_SHAPE", node, "loop is empty, and needs both in and iterator", _SHAPE)
        return None
    _refuse(reading, loop, _REPLACED)
    shared_checks.check_keys(reading, loop, LOOP, "E_LOOP_SHAPE", handled=_REPLACED, elsewhere=FILTERS)
    spec = shared_checks.mapping(reading, loop.get("spec"), "E_LOOP_SHAPE", "loop.spec", _SHAPE)
    mode, in_flight = _read_spec(reading, spec) if spec else (None, None)
    inner = read_loop(reading, loop.get("loop"))
    items, iterator = _read_items(reading, loop), _read_iterator(reading, loop)
    if items is None or iterator is None:
        return None
    return LoopSyntax(
        node=loop,
        items=items,
        iterator=iterator,
        spec=spec,
        mode=mode or "sequential",
        max_in_flight=in_flight,
        inner=inner,
    )


def _refuse(reading: shared_checks.ReadContext, node: Mapping, replaced: dict[str, str]) -> None:
    for key, place in replaced.items():
        if key in node:
            message = f'"{key}" is not how {reading.dialect} writes a loop'
            reading.error("E_LOOP_SHAPE", node.keys[key], message, f"write {place}")


def _read_items(reading: shared_checks.ReadContext, loop: Mapping) -> Node | None:
    # Not `or`: an empty list is false, and yet a collection.
    items = loop.get("in") if "in" in loop else loop.get("collection")
    if items is None:
        reading.error(
            "E_LOOP_SHAPE", shared_checks.opening(loop), "loop needs both in and iterator, and in is missing", _SHAPE
        )
        return None
    if isinstance(items, Scalar) and not shared_checks.is_templated(items):
        message = f"in must be a list or a template that gives one, and this is {shared_checks.found_text(items)}"
        reading.error("E_LOOP_SHAPE", items, message, f'in: "{{{{ {items.value or "workload.items"} }}}}"')
        return None
    return items


def _read_iterator(reading: shared_checks.ReadContext, loop: Mapping) -> Scalar | None:
    node = loop.get("iterator") if "iterator" in loop else loop.get("element")
    if node is None:
        message = "loop needs both in and iterator, and iterator is missing"
        reading.error("E_LOOP_SHAPE", shared_checks.opening(loop), message, _SHAPE)
        return None
    iterator = shared_checks.text(reading, node, "E_LOOP_SHAPE", "iterator", "iterator: item, read as iter.item")
    if shared_checks.is_templated(iterator):
        reading.error("E_LOOP_SHAPE", node, "iterator must be a name, not a template", "iterator: item")
        return None
    return iterator


def _read_spec(reading: shared_checks.ReadContext, spec: Mapping) -> tuple[str | None, Node | None]:
    """The mode and the bound, each written once: in spec, or in its policy (SPEC-06)."""
    _refuse(reading, spec, REPLACED_OPTIONS)
    policy = None
    if reading.dialect is Dialect.V10:
        policy = read_scope_policy(reading, spec.get("policy"), "loop")
        check_parts(reading, policy, "loop")
    elif "policy" in spec:
        reading.error("E_SPEC_OPTION", spec.keys["policy"], f"{reading.dialect} has no policies", "noetl migrate")
    shared_checks.guard(reading, spec.get("complete_when"), "complete_when")
    shared_checks.boolean(reading, spec.get("extend"), "E_LOOP_SHAPE", "extend")
    shared_checks.timeout(reading, spec.get("timeout"), "timeout")
    mode = _written_once(reading, spec, policy, "mode")
    in_flight = _written_once(reading, spec, policy, "max_in_flight")
    hint = "mode: parallel with max_in_flight: 1 runs them one at a time"
    return (
        shared_checks.choice(reading, mode, LOOP_SPEC["mode"].words, "E_LOOP_MODE", "mode"),
        shared_checks.count(reading, in_flight, "E_LOOP_SHAPE", "max_in_flight", hint=hint),
    )


def _written_once(reading: shared_checks.ReadContext, spec: Mapping, policy: Mapping | None, key: str) -> Node | None:
    outer, inner = spec.get(key), policy.get(key) if policy else None
    if outer is not None and inner is not None and data(outer) != data(inner):
        found, other = shared_checks.found_text(outer), shared_checks.found_text(inner)
        message = f"loop.spec.{key} is {found}, and loop.spec.policy.{key} is {other}"
        reading.error("E_LOOP_MODE", inner, message, f"keep one of them, loop.spec.{key}")
    return outer if outer is not None else inner


_CODE = "E_STEP_KEY"
_OF_TASKS = ("kind", "code", "url", "endpoint", "method", "headers", "params", "payload", "command", "query", "auth")
# Keys that people write on a step and that belong elsewhere.
ELSEWHERE = {**WORDS_OF_OTHERS, **{key: f"move it into tool: {{kind: …, {key}: …}}" for key in _OF_TASKS}}
ELSEWHERE["type"] = "move it into tool: {kind: …}"
ELSEWHERE["kind"] = "move it into tool: {kind: …}, with the inputs beside it, as noetl migrate does"


def read_common(reading: shared_checks.ReadContext, node: Mapping, name: Scalar) -> dict[str, Any]:
    """The Step fields that both dialects write alike."""
    spec = shared_checks.mapping(reading, node.get("spec"), _CODE, "a step's spec", "spec: {timeout: 60}")
    check_step_options(reading, spec)
    tool = node.get("tool")
    return {
        "node": node,
        "name": str(name.value),
        "name_node": name,
        "desc": shared_checks.plain_text(reading, node.get("desc"), _CODE, "desc"),
        "spec": spec,
        "args": shared_checks.mapping(reading, node.get("args"), _CODE, "args", "args: {name: value}"),
        "set_ctx": shared_checks.mapping(reading, node.get("set_ctx"), _CODE, "set_ctx", "set_ctx: {name: value}"),
        "result": read_result(reading, node, spec),
        "loop": read_loop(reading, node.get("loop")),
        "tasks": read_tool(reading, tool),
        "single": is_single(tool),
    }


def read_result(reading: shared_checks.ReadContext, node: Mapping, spec: Mapping | None) -> Mapping | None:
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
    result = shared_checks.known_block(reading, written, RESULT, _CODE, "result", shape)
    if result is None:
        return None
    store = shared_checks.mapping(reading, result.get("store"), _CODE, "result.store", shape)
    if store is not None:
        shared_checks.text(reading, store.get("kind"), _CODE, "result.store.kind", shape)
    for path in (
        shared_checks.sequence(reading, result.get("output_select"), _CODE, "result.output_select", shape) or ()
    ):
        shared_checks.text(reading, path, _CODE, "a path of output_select", "output_select: [data.count]")
    return result
