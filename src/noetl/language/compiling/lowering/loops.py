"""Loops, lowered level by level (LOOP-01, LOOP-07, LOOP-11, LOOP-14, LOOP-15, SPEC-06, V2C-22)."""

from __future__ import annotations

from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.values import authored, flag, inner, table, word
from noetl.language.reading import playbook as document
from noetl.language.reading.nodes import Mapping, Node, data
from noetl.net.debug import part_address
from noetl.net.net import Loop
from noetl.templates.authored import Authored


def lower_loop(lowering: Lowering, step: str, loop: document.LoopSyntax | None, part: str = "loop") -> Loop | None:
    if loop is None:
        return None
    lowering.trace(part_address(step, part), loop)
    policy = inner(loop.spec, "policy")
    where = word(inner(policy, "exec"), "")
    partitioning = inner(policy, "partitioning")
    return Loop(
        items=_items(loop.items),
        iterator=str(loop.iterator.value),
        parallel=loop.mode == "parallel",
        max_in_flight=authored(loop.max_in_flight),
        distributed={"distributed": True, "local": False}.get(where),
        ordering=word(inner(policy, "ordering"), "index"),
        reducers={str(key): str(op) for key, op in table(inner(policy, "reducers")).items()},
        ctx_writes=word(inner(policy, "ctx_writes"), "once"),
        partition=authored(partitioning.get("key") if isinstance(partitioning, Mapping) else partitioning),
        max_queue=authored(inner(policy, "backpressure", "max_queue")),
        complete_when=authored(inner(loop.spec, "complete_when")),
        extend=flag(inner(loop.spec, "extend")),
        inner=lower_loop(lowering, step, loop.inner, f"{part}/loop"),
    )


def _items(node: Node) -> Authored:
    """A literal mapping iterates as key and value in document order (LOOP-12), which sorted JSON would lose."""
    if isinstance(node, Mapping):
        return Authored([{"key": key, "value": data(value)} for key, _, value in node.items()])
    return Authored(data(node))
