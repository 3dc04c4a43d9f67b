"""Targets of v2-case: the step's `next` shortcut and the transitions of case rules (V2C-04, V2C-12, V2C-25, C-32).

Targets have no conditions here: those stand in `case`. Several targets fork.
"""

from __future__ import annotations

from noetl.base.source import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.numbers import duration
from noetl.language.reading.playbook import ArcSyntax, CaseExit, RouterSyntax
from noetl.language.reading.routers import check_arc_options
from noetl.language.reading.shared_checks import ReadContext, boolean, guard, known_keys, mapping, opening, text
from noetl.language.v2_case.tools import read_options

_FORM = "write a step's name, or a list of names or {step: …, args: {…}}"
_CONDITIONS = ("when", "then", "else")
_TASK_FORM = "write - next: {next: [{step: …}]}"


def read_shortcut(reading: ReadContext, node: Node | None) -> RouterSyntax | None:
    """A step's own `next`: taken when no case rule decided a transition."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    arcs = read_targets(reading, node)
    return RouterSyntax(node=node, arcs=arcs, mode="inclusive" if len(arcs) > 1 else "exclusive") if arcs else None


def read_targets(reading: ReadContext, node: Node) -> tuple[ArcSyntax, ...]:
    """A name, or a list of names and `{step, args}` mappings."""
    if isinstance(node, Mapping):
        hint = _FORM
        if "arcs" in node:
            hint = f"arcs belong to v10: {_FORM}"
        elif "step" in node:
            hint = f"put it in a list: next: [{{step: {_node_text(node.get('step'))}}}]"
        _refuse_conditions(reading, node)
        reading.error("E_NEXT_SHAPE", opening(node), "next must be a name or a list, and this is a mapping", hint)
        return ()
    items = node.items if isinstance(node, Sequence) else (node,)
    if not items:
        reading.error("E_NEXT_SHAPE", opening(node), "next names no step", _FORM)
    arcs = (_target(reading, item) for item in items)
    return tuple(arc for arc in arcs if arc is not None)


def _target(reading: ReadContext, node: Node) -> ArcSyntax | None:
    if isinstance(node, Scalar):
        name = text(reading, node, "E_NEXT_SHAPE", "a target", _FORM)
        return _arc(node, name) if name is not None else None
    if not isinstance(node, Mapping):
        reading.error(
            "E_NEXT_SHAPE", opening(node), f"a target must be a step's name, and this is {describe(node)}", _FORM
        )
        return None
    _refuse_conditions(reading, node)
    keys = ("step", "args", "spec")
    known_keys(reading, node, keys, "E_NEXT_SHAPE", "a target", closed=True, handled=_CONDITIONS)
    if "step" not in node and not any(key in node for key in _CONDITIONS):
        reading.error("E_NEXT_SHAPE", opening(node), "this target names no step", _FORM)
    name = text(reading, node.get("step"), "E_NEXT_SHAPE", "a target's step", _FORM)
    args = mapping(reading, node.get("args"), "E_NEXT_SHAPE", "a target's args")
    spec = _target_spec(reading, node)
    return _arc(node, name, args, spec) if name is not None else None


def _target_spec(reading: ReadContext, node: Mapping) -> Mapping | None:
    """What an arc may say in any dialect (C-31), but no `guard`: a target has no conditions (C-32)."""
    spec = mapping(reading, node.get("spec"), "E_SPEC_OPTION", "a target's spec")
    if spec is not None and "guard" in spec:
        hint = "write it in the spec of a next task in a then list"
        reading.error("E_SPEC_OPTION", spec.keys["guard"], "guard is a next option, not one of a target", hint)
        return None
    check_arc_options(reading, spec)
    return spec


def _arc(node: Node, name: Scalar, args: Mapping | None = None, spec: Mapping | None = None) -> ArcSyntax:
    return ArcSyntax(node=node, target=name, args=args, spec=spec, template=is_template(str(name.value)))


def _refuse_conditions(reading: ReadContext, node: Mapping) -> None:
    for key in _CONDITIONS:
        if key in node:
            reading.error(
                "E_NEXT_WHEN",
                node.keys[key],
                f'next of a v2-case step has no "{key}"',
                "put the condition in case, or run noetl migrate and write next.arcs[].when",
            )


def read_transition(reading: ReadContext, name: Scalar, body: Node) -> CaseExit | None:
    """The `next` task of a `then` list, in any of its three forms; the first also without its inner `next`."""
    if isinstance(body, Sequence) or (isinstance(body, Scalar) and isinstance(body.value, str)):
        targets = read_targets(reading, body)
        return CaseExit(node=body, targets=targets) if targets else None
    block = mapping(reading, body, "E_NEXT_SHAPE", "a next task", _TASK_FORM)
    if block is None:
        if isinstance(body, Scalar) and body.value is None:
            reading.error("E_NEXT_SHAPE", name, "this next task names no step", _TASK_FORM)
        return None
    known_keys(reading, block, ("next", "tool", "spec"), "E_NEXT_SHAPE", "a next task", closed=True)
    if ("next" in block) == ("tool" in block):
        found = "both next and tool" if "next" in block else "neither next nor tool"
        reading.error("E_NEXT_SHAPE", opening(block), f"this next task has {found}", _TASK_FORM)
        return None
    if "tool" in block:
        return read_next_tool(reading, block.values["tool"], block)
    return _transition(reading, block, read_targets(reading, block.values["next"]))


def read_next_tool(reading: ReadContext, node: Node, block: Mapping) -> CaseExit | None:
    """`{tool: {kind: next, step: …}}`: the tool-based spelling."""
    tool = mapping(reading, node, "E_NEXT_SHAPE", "the tool of a next task", _TASK_FORM)
    if tool is None:
        return None
    known_keys(reading, tool, ("kind", "step", "args", "spec"), "E_NEXT_SHAPE", "the tool of a next task", closed=True)
    if not is_next_tool(tool):
        reading.error("E_NEXT_SHAPE", opening(tool), "the tool of a next task must be of kind next", _TASK_FORM)
    name = text(reading, tool.get("step"), "E_NEXT_SHAPE", "the step of a next task")
    if "step" not in tool:
        reading.error(
            "E_NEXT_SHAPE", opening(tool), "this next task names no step", "write tool: {kind: next, step: …}"
        )
    args = mapping(reading, tool.get("args"), "E_NEXT_SHAPE", "the args of a next task")
    targets = (_arc(tool, name, args),) if name is not None else ()
    return _transition(reading, tool if "spec" in tool else block, targets)


def is_next_tool(node: Node | None) -> bool:
    kind = node.get("kind") if isinstance(node, Mapping) else None
    return isinstance(kind, Scalar) and kind.value == "next"


def _transition(reading: ReadContext, block: Mapping, targets: tuple[ArcSyntax, ...]) -> CaseExit | None:
    spec = read_options(reading, block, "next")
    if not targets:
        return None
    if spec is None:
        return CaseExit(node=block, targets=targets)
    return CaseExit(
        node=block,
        targets=targets,
        delay=duration(reading, spec.get("delay"), "delay"),
        guard=guard(reading, spec.get("guard"), "guard"),
        trigger_compensation=boolean(
            reading, spec.get("trigger_compensation"), "E_SPEC_OPTION", "trigger_compensation"
        ),
    )


def _node_text(node: Node | None) -> str:
    return str(node.value) if isinstance(node, Scalar) else "…"
