"""Case rules of v2-case, lowered: actions in order, each a task, a write or a transition (V2C-06…15)."""

from __future__ import annotations

from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.routers import lower_arc
from noetl.language.compiling.lowering.tasks import TaskLowering
from noetl.language.compiling.lowering.values import authored, inner
from noetl.language.reading import playbook as document
from noetl.language.reading.nodes import Mapping
from noetl.net.debug import case_address, transition_address
from noetl.net.v2_case_rules import Action, Case, CaseRule


def lower_case(lowering: Lowering, step: document.StepSyntax, case: document.CaseSyntax, tasks: TaskLowering) -> Case:
    rules = tuple(_rule(lowering, step, index, rule, tasks) for index, rule in enumerate(case.rules))
    return Case(rules=rules, inclusive=step.case_mode == "inclusive", on_event=step.eval_mode == "on_event")


def _rule(
    lowering: Lowering, step: document.StepSyntax, index: int, rule: document.CaseRuleSyntax, tasks: TaskLowering
) -> CaseRule:
    lowering.trace(case_address(step.name, index), rule.when or rule, "case")
    actions = []
    for position, action in enumerate(rule.actions):
        address = transition_address(step.name, index, position)
        actions.append(_action(lowering, action, address, tasks, sink=_is_mapping(rule)))
    return CaseRule(
        when=authored(rule.when),
        actions=tuple(actions),
        strict=rule.strict,
        cache=rule.cache,
        repeat=tasks.repeats(rule.retry, f"case/{index}/retry"),
    )


def _is_mapping(rule: document.CaseRuleSyntax) -> bool:
    """Whether the actions are written as a mapping: the only task among them is then its `sink` (V2C-09)."""
    return isinstance(inner(rule.node, "then") or inner(rule.node, "else"), Mapping)


def _action(lowering: Lowering, action: document.Action, address: str, tasks: TaskLowering, *, sink: bool) -> Action:
    match action:
        case document.TaskSyntax():
            return Action(task=tasks.task(action, address), sink=sink)
        case document.SetVars():
            lowering.trace(address, action, "set")
            return Action(set_ctx=authored(action.values))
        case document.CaseExit():
            place = action.targets[0].target if action.targets else action
            lowering.trace(address, place, "next")
            return Action(
                transition=tuple(lower_arc(arc) for arc in action.targets),
                delay=authored(action.delay),
                guard=authored(action.guard),
                trigger_compensation=action.trigger_compensation,
            )
