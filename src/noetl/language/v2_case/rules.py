"""Case rules: the actions of a v2-case step on its events (V2C-06…14, C-35).

A rule's `then` is a mapping of four actions in a fixed order, or a list of labelled tasks; `else` holds either. Also
targets: the step's `next` shortcut and the transitions of rules (V2C-04, V2C-12, V2C-25, C-32). They have no
conditions: those are in `case`. Several targets fork. Last, the rules as data of the net.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import is_template
from noetl.language.compiling.lowering.steps import lower_arc
from noetl.language.compiling.lowering.tasks import TaskLowering
from noetl.language.compiling.lowering.values import Lowering, authored
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe, inner
from noetl.language.reading.playbook import (
    Action,
    ArcSyntax,
    CaseExit,
    CaseRuleSyntax,
    CaseSyntax,
    RetrySyntax,
    RouterSyntax,
    SetVars,
    StepSyntax,
    TaskSyntax,
)
from noetl.language.reading.routers import check_arc_options
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    choice,
    duration,
    guard,
    known_keys,
    mapping,
    opening,
    sequence,
    text,
)
from noetl.language.v2_case.tools import read_label, read_labelled_task, read_options, read_retry, read_sink
from noetl.net import routing as net_rules
from noetl.net.debug import case_address, transition_address

_TARGET_FORM = "write a step's name, or a list of names or {step: …, args: {…}}"
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
        hint = _TARGET_FORM
        if "arcs" in node:
            hint = f"arcs belong to v10: {_TARGET_FORM}"
        elif "step" in node:
            hint = f"put it in a list: next: [{{step: {_node_text(node.get('step'))}}}]"
        _refuse_conditions(reading, node)
        reading.error("E_NEXT_SHAPE", opening(node), "next must be a name or a list, and this is a mapping", hint)
        return ()
    items = node.items if isinstance(node, Sequence) else (node,)
    if not items:
        reading.error("E_NEXT_SHAPE", opening(node), "next names no step", _TARGET_FORM)
    arcs = (_target(reading, item) for item in items)
    return tuple(arc for arc in arcs if arc is not None)


def _target(reading: ReadContext, node: Node) -> ArcSyntax | None:
    if isinstance(node, Scalar):
        name = text(reading, node, "E_NEXT_SHAPE", "a target", _TARGET_FORM)
        return _arc(node, name) if name is not None else None
    if not isinstance(node, Mapping):
        reading.error(
            "E_NEXT_SHAPE", opening(node), f"a target must be a step's name, and this is {describe(node)}", _TARGET_FORM
        )
        return None
    _refuse_conditions(reading, node)
    keys = ("step", "args", "spec")
    known_keys(reading, node, keys, "E_NEXT_SHAPE", "a target", closed=True, handled=_CONDITIONS)
    if "step" not in node and not any(key in node for key in _CONDITIONS):
        reading.error("E_NEXT_SHAPE", opening(node), "this target names no step", _TARGET_FORM)
    name = text(reading, node.get("step"), "E_NEXT_SHAPE", "a target's step", _TARGET_FORM)
    args = mapping(reading, node.get("args"), "E_NEXT_SHAPE", "a target's args")
    spec = _target_spec(reading, node)
    return _arc(node, name, args, spec) if name is not None else None


def _target_spec(reading: ReadContext, node: Mapping) -> Mapping | None:
    """The options of an arc in any dialect (C-31), but no `guard`: a target has no conditions (C-32)."""
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


RULE_KEYS = ("when", "then", "spec", "else")
_FORM = "write - when: …, then: […]"
_ACTIONS = ("sink", "set", "retry", "next")
_LEADS = "a rule leads on with next: [{step: …}]; where no rule does, the next of the step is taken"
# Words that say what a rule does, of other systems and other dialects.
_NO_ACTIONS = {
    **dict.fromkeys(("skip", "continue", "pass", "break", "stop", "exit", "end"), _LEADS),
    **dict.fromkeys(
        ("result", "return", "output", "outputs"),
        "the result of a step is what its tool gives; set: {name: …} keeps another value, args of next pass one on",
    ),
    "do": "a rule of v2-case has sink, set, retry and next; do belongs to the rules of v2-eval and v10",
}


def read_case(reading: ReadContext, node: Node | None) -> CaseSyntax | None:
    items = sequence(reading, node, "E_RULE_SHAPE", "case", f"{_FORM} in a list")
    if items is None:
        return None
    rules = []
    for position, item in enumerate(items):
        rule = _rule(reading, item, last=position == len(items) - 1)
        if rule is not None:
            rules.append(rule)
    return CaseSyntax(node=items, rules=tuple(rules))


def _rule(reading: ReadContext, node: Node, *, last: bool) -> CaseRuleSyntax | None:
    block = mapping(reading, node, "E_RULE_SHAPE", "a case rule", _FORM)
    if block is None:
        return None
    if "else" in block:
        return _read_else_rule(reading, block, last=last)
    known_keys(reading, block, ("when", "then", "spec"), "E_RULE_SHAPE", "a case rule")
    for key in ("when", "then"):
        if key not in block or (key == "then" and _is_null(block.values[key])):
            reading.error("E_RULE_SHAPE", opening(block), f"this case rule has no {key}", _FORM)
    strict, cache = _condition_options(reading, block)
    when = guard(reading, block.get("when"))
    actions, retry = _then_actions(reading, block.get("then"))
    # Without a condition that can be read the rule would hold always.
    if when is None:
        return None
    return CaseRuleSyntax(node=block, when=when, actions=actions, strict=strict, cache=cache, retry=retry)


def _read_else_rule(reading: ReadContext, block: Mapping, *, last: bool) -> CaseRuleSyntax:
    if "when" in block:
        reading.error("E_RULE_SHAPE", block.keys["when"], "a rule has when or else, not both", _FORM)
    known_keys(reading, block, ("else", "when"), "E_RULE_SHAPE", "an else rule", closed=True)
    if not last:
        reading.error("E_ELSE_ORDER", block.keys["else"], "else must be the last rule", "move it to the end of case")
    held = block.get("else")
    if isinstance(held, Mapping) and list(held.values) == ["then"]:  # as v10 writes it (C-35)
        message = "else of a v2-case rule holds its actions itself, without then"
        reading.error("E_RULE_SHAPE", held.keys["then"], message, "leave then out: else: {next: [{step: …}]}")
        held = held.get("then")
    actions, retry = _then_actions(reading, held)
    return CaseRuleSyntax(node=block, when=None, actions=actions, retry=retry)


def _condition_options(reading: ReadContext, block: Mapping) -> tuple[bool, bool]:
    """A condition's spec: whether undefined names are errors, and whether its value is kept (TPL-04)."""
    spec = read_options(reading, block, "when")
    if spec is None:
        return False, False
    strict = choice(reading, spec.get("eval"), ("strict", "lenient"), "E_SPEC_OPTION", "eval") == "strict"
    return strict, boolean(reading, spec.get("cache"), "E_SPEC_OPTION", "cache")


def _then_actions(reading: ReadContext, node: Node | None) -> tuple[tuple[Action, ...], tuple[RetrySyntax, ...]]:
    if isinstance(node, Mapping):
        retry = read_retry(reading, node.get("retry"))
        return tuple(_mapped_actions(reading, node)), retry
    form = "write a list of tasks, or a mapping of sink, set, retry and next"
    tasks = sequence(reading, node, "E_RULE_SHAPE", "then", form)
    if tasks is None:
        return (), ()
    listed = tuple(_listed_actions(reading, tasks))
    return (
        tuple(action for action in listed if not isinstance(action, RetrySyntax)),
        tuple(action for action in listed if isinstance(action, RetrySyntax)),
    )


def _mapped_actions(reading: ReadContext, node: Mapping) -> Iterator[Action]:
    """`{sink, set, retry, next}`, done in that order however it is written (V2C-09)."""
    tasks = [
        key for key, _, value in node.items() if key not in _ACTIONS and isinstance(value, Mapping) and "tool" in value
    ]
    for key in tasks:
        hint = f"write a list: then: [{key}: {{tool: …}}, next: {{next: [{{step: …}}]}}]"
        reading.error("E_RULE_SHAPE", node.keys[key], f'"{key}" is a task, and a mapping under then holds none', hint)
    known_keys(reading, node, (*_ACTIONS, *tasks), "E_RULE_SHAPE", "then", closed=True, elsewhere=_NO_ACTIONS)
    if "sink" in node:
        sink = read_sink(reading, node.values["sink"])
        if sink is not None:
            yield sink
    values = mapping(reading, node.get("set"), "E_RULE_SHAPE", "set", "write set: {name: value}")
    if values is not None:
        yield SetVars(node=values, values=values)
    if "next" in node:
        targets = read_targets(reading, node.values["next"])
        if targets:
            yield CaseExit(node=node.values["next"], targets=targets)


def _listed_actions(reading: ReadContext, tasks: Sequence) -> Iterator[Action | RetrySyntax]:
    """Labelled tasks, `set` and `retry`; `next`, or the kind next under another name, leads away and ends the list
    (V2C-10, V2C-12)."""
    ended: Scalar | None = None
    for item in tasks:
        label = read_label(reading, item)
        if label is None:
            continue
        name, body = label
        if ended is not None:
            hint = "move it before the transition"
            reading.error("E_RULE_SHAPE", name, f'"{name.value}" is never run: the task before it leads away', hint)
        if name.value == "retry" and not _is_task(body):
            yield from read_retry(reading, body)
            continue
        action = _listed_action(reading, name, body)
        # Actions after a guarded transition can still run: the guard may be false.
        if isinstance(action, CaseExit) and action.guard is None:
            ended = name
        if action is not None:
            yield action


def _listed_action(reading: ReadContext, name: Scalar, body: Node) -> Action | None:
    if name.value == "next":
        return read_transition(reading, name, body)
    if isinstance(body, Mapping) and is_next_tool(body.get("tool")):
        return read_next_tool(reading, body.values["tool"], body)
    if name.value == "set" and not _is_task(body):
        values = mapping(reading, body, "E_RULE_SHAPE", "set", "write set: {name: value}")
        return SetVars(node=values, values=values) if values is not None else None
    if str(name.value) in _NO_ACTIONS and not _is_task(body):
        hint = _NO_ACTIONS[str(name.value)]
        reading.error("E_RULE_SHAPE", name, f'"{name.value}" is nothing that a rule does', hint)
        return None
    return read_labelled_task(reading, name, body)


def _is_task(body: Node) -> bool:
    return isinstance(body, Mapping) and "tool" in body


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


# Lowered: actions in order, each a task, a write or a transition (V2C-06…15).


def lower_case(lowering: Lowering, step: StepSyntax, case: CaseSyntax, tasks: TaskLowering) -> net_rules.Case:
    rules = tuple(_lowered_rule(lowering, step, index, rule, tasks) for index, rule in enumerate(case.rules))
    return net_rules.Case(
        rules=rules, inclusive=step.options.case_mode == "inclusive", on_event=step.options.eval_mode == "on_event"
    )


def _lowered_rule(
    lowering: Lowering, step: StepSyntax, index: int, rule: CaseRuleSyntax, tasks: TaskLowering
) -> net_rules.CaseRule:
    lowering.trace(case_address(step.name, index), rule.when or rule, "case")
    actions = []
    for position, action in enumerate(rule.actions):
        address = transition_address(step.name, index, position)
        actions.append(_lowered_action(lowering, action, address, tasks, sink=_is_mapping(rule)))
    return net_rules.CaseRule(
        when=authored(rule.when),
        actions=tuple(actions),
        strict=rule.strict,
        cache=rule.cache,
        repeat=tasks.repeats(rule.retry, f"case/{index}/retry"),
    )


def _is_mapping(rule: CaseRuleSyntax) -> bool:
    """Whether the actions are written as a mapping: the only task among them is then its `sink` (V2C-09)."""
    return isinstance(inner(rule.node, "then") or inner(rule.node, "else"), Mapping)


def _lowered_action(
    lowering: Lowering, action: Action, address: str, tasks: TaskLowering, *, sink: bool
) -> net_rules.Action:
    match action:
        case TaskSyntax():
            return net_rules.Action(task=tasks.task(action, address), sink=sink)
        case SetVars():
            lowering.trace(address, action, "set")
            return net_rules.Action(set_ctx=authored(action.values))
        case CaseExit():
            place = action.targets[0].target if action.targets else action
            lowering.trace(address, place, "next")
            return net_rules.Action(
                transition=tuple(lower_arc(arc) for arc in action.targets),
                delay=authored(action.delay),
                guard=authored(action.guard),
                trigger_compensation=action.trigger_compensation,
            )
