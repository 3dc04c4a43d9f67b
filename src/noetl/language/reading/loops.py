"""Loops of v10 and v2-eval: `in`, `iterator`, `spec`, and a loop inside (VAL-03, SPEC-06, LOOP-07, C-08)."""

from __future__ import annotations

from noetl.language.grammar.steps import LOOP, LOOP_SPEC
from noetl.language.reading.nodes import Mapping, Node, Scalar, data
from noetl.language.reading.numbers import count, found_text, is_templated, timeout
from noetl.language.reading.playbook import Dialect, LoopSyntax
from noetl.language.reading.policy_keys import check_parts, read_scope_policy
from noetl.language.reading.shared_checks import ReadContext, boolean, check_keys, choice, guard, mapping, opening, text

_SHAPE = 'loop: {in: "{{ … }}", iterator: name, spec: {mode: sequential}}'
# The other dialects' spellings, and where the same is said here.
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
# Words for which elements, and how long, each with what to write instead.
FILTERS = {
    **dict.fromkeys(("where", "filter", "when", "if"), _FILTER),
    **dict.fromkeys(
        ("until", "while", "break_when", "stop_when"), "write loop.spec.complete_when, looked at after each iteration"
    ),
}
REPLACED_OPTIONS = {"batch_size": "loop.spec.max_in_flight", "on_error": "step.spec.policy.failure.mode"}


def read_loop(reading: ReadContext, node: Node | None) -> LoopSyntax | None:
    """A loop and the loops inside it."""
    if node is None:
        return None
    loop = mapping(reading, node, "E_LOOP_SHAPE", "loop", _SHAPE)
    if loop is None:
        if isinstance(node, Scalar) and node.value is None:
            reading.error("E_LOOP_SHAPE", node, "loop is empty, and needs both in and iterator", _SHAPE)
        return None
    _refuse(reading, loop, _REPLACED)
    check_keys(reading, loop, LOOP, "E_LOOP_SHAPE", handled=_REPLACED, elsewhere=FILTERS)
    spec = mapping(reading, loop.get("spec"), "E_LOOP_SHAPE", "loop.spec", _SHAPE)
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


def _refuse(reading: ReadContext, node: Mapping, replaced: dict[str, str]) -> None:
    for key, place in replaced.items():
        if key in node:
            message = f'"{key}" is not how {reading.dialect} writes a loop'
            reading.error("E_LOOP_SHAPE", node.keys[key], message, f"write {place}")


def _read_items(reading: ReadContext, loop: Mapping) -> Node | None:
    items = loop.get("in") if "in" in loop else loop.get("collection")
    if items is None:
        reading.error("E_LOOP_SHAPE", opening(loop), "loop needs both in and iterator, and in is missing", _SHAPE)
        return None
    if isinstance(items, Scalar) and not is_templated(items):
        message = f"in must be a list or a template that gives one, and this is {found_text(items)}"
        reading.error("E_LOOP_SHAPE", items, message, f'in: "{{{{ {items.value or "workload.items"} }}}}"')
        return None
    return items


def _read_iterator(reading: ReadContext, loop: Mapping) -> Scalar | None:
    node = loop.get("iterator") if "iterator" in loop else loop.get("element")
    if node is None:
        message = "loop needs both in and iterator, and iterator is missing"
        reading.error("E_LOOP_SHAPE", opening(loop), message, _SHAPE)
        return None
    iterator = text(reading, node, "E_LOOP_SHAPE", "iterator", "iterator: item, read as iter.item")
    if is_templated(iterator):
        reading.error("E_LOOP_SHAPE", node, "iterator must be a name, not a template", "iterator: item")
        return None
    return iterator


def _read_spec(reading: ReadContext, spec: Mapping) -> tuple[str | None, Node | None]:
    """The mode and the bound, each written once: in spec, or in its policy (SPEC-06)."""
    _refuse(reading, spec, REPLACED_OPTIONS)
    policy = None
    if reading.dialect is Dialect.V10:
        policy = read_scope_policy(reading, spec.get("policy"), "loop")
        check_parts(reading, policy, "loop")
    elif "policy" in spec:
        reading.error("E_SPEC_OPTION", spec.keys["policy"], f"{reading.dialect} has no policies", "noetl migrate")
    guard(reading, spec.get("complete_when"), "complete_when")
    boolean(reading, spec.get("extend"), "E_LOOP_SHAPE", "extend")
    timeout(reading, spec.get("timeout"), "timeout")
    mode = _written_once(reading, spec, policy, "mode")
    in_flight = _written_once(reading, spec, policy, "max_in_flight")
    hint = "mode: parallel with max_in_flight: 1 runs them one at a time"
    return (
        choice(reading, mode, LOOP_SPEC["mode"].words, "E_LOOP_MODE", "mode"),
        count(reading, in_flight, "E_LOOP_SHAPE", "max_in_flight", hint=hint),
    )


def _written_once(reading: ReadContext, spec: Mapping, policy: Mapping | None, key: str) -> Node | None:
    outer, inner = spec.get(key), policy.get(key) if policy else None
    if outer is not None and inner is not None and data(outer) != data(inner):
        message = f"loop.spec.{key} is {found_text(outer)}, and loop.spec.policy.{key} is {found_text(inner)}"
        reading.error("E_LOOP_MODE", inner, message, f"keep one of them, loop.spec.{key}")
    return outer if outer is not None else inner
