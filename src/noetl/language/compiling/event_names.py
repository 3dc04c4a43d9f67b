"""Event names: a guard that waits for an event its step never has will never hold (VAL-20, design.md §5)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.base.source import is_template
from noetl.base.template_names import paths
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.reading.nodes import Mapping, Scalar, scalars
from noetl.language.reading.playbook import CaseExit, CaseRuleSyntax, LoopSyntax, Playbook, StepSyntax, TaskSyntax
from noetl.language.reading.shared_checks import nearest

_ENTRIES = ("step.enter", "start")
# What only a wait block gives; a case rule that sees its own step's events alone waits for them in vain without one.
_OF_WAITS = {
    "timer.fired": "timer",
    "timer.cancelled": "timer",
    "message.received": "message",
    "message.timeout": "message",
    "signal.received": "signal",
    "task.completed": "human_task",
}


def check_event_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_EVENT_NEVER, and I_ALIAS for older names of the boundary event."""
    for step in playbook.steps:
        for arc in step.router.arcs if step.router else ():
            for name, place in _compared(arc.when, playbook):
                _check(name, place, step, compilation)
        if step.case is not None and step.eval_mode != "on_event":
            for rule in step.case.rules:
                for name, place in _compared(rule.when, playbook):
                    _check_case(name, place, step, rule, compilation)
                _check_iterations(step, rule, playbook, compilation)
    return playbook


_OF_ITERATION = frozenset({"iter", "loop", "loop_index", "result", "response", "this", "event", "error"})


def _check_iterations(step: StepSyntax, rule: CaseRuleSyntax, playbook: Playbook, compilation: Compilation) -> None:
    """W_CASE_IN_LOOP: tasks and a way out, with nothing of the element in them, were meant for the end of the loop."""
    works = any(isinstance(action, TaskSyntax) for action in rule.actions)
    leads = any(isinstance(action, CaseExit) for action in rule.actions)
    asked = [name for name, _ in _compared(rule.when, playbook)]
    if step.loop is None or rule.when is None or not (works and leads) or "call.done" not in asked:
        return
    assert isinstance(rule.node, Mapping)
    texts = (str(scalar.value) for scalar in scalars(rule.node.values["then"]))
    read = {path[0] for text in texts if is_template(text) for path in paths(text)}
    loop: LoopSyntax | None = step.loop
    names = set(_OF_ITERATION)
    while loop is not None:
        names.add(str(loop.iterator.value))
        loop = loop.inner
    if not read & names:
        message = f'this rule runs its tasks in every iteration of "{step.name}", and none of them is about the element'
        hint = "write event.name == 'loop.done' to run them once, after the loop"
        compilation.note("W_CASE_IN_LOOP", rule.when, message, hint)


def _compared(when: Scalar | None, playbook: Playbook) -> Iterator[tuple[str, PositionedDiagnostic]]:
    """The names that `event.name` is compared with, each with its place."""
    template = parsed(str(when.value)) if when is not None and is_template(str(when.value)) else None
    if template is None or when is None:
        return
    for test in template.comparisons:
        if test.root == "event" and test.path == ("name",) and test.op in ("==", "in"):
            for name in test.values:
                if isinstance(name, str):
                    yield name, name_in(when, name, playbook.source, quoted=True)


def _check(name: str, place: PositionedDiagnostic, step: StepSyntax, compilation: Compilation) -> None:
    events = boundary_events(step)
    if name in events:
        return
    meant = meant_by(name, step) if name in ALIASES else ()
    if meant:
        canonical = " or ".join(f'"{event}"' for event in meant)
        message = f'"{name}" is read as {canonical}'
        compilation.note("I_ALIAS", place, message, f"write {canonical}")
        return
    ends = f"this step ends with {', '.join(events)}"
    if name in _ENTRIES:
        message = f'"{name}" never reaches an arc: arcs are looked at when the step has ended'
        compilation.note("W_EVENT_NEVER", place, message, ends)
        return
    guess = nearest(name, events)
    hint = f'did you mean "{guess}"? {ends}' if guess else ends
    compilation.note("W_EVENT_NEVER", place, f'step "{step.name}" never has the event "{name}"', hint)


def _check_case(
    name: str, place: PositionedDiagnostic, step: StepSyntax, rule: CaseRuleSyntax, compilation: Compilation
) -> None:
    if name == "loop.done" and step.loop is not None:
        if rule.retry:
            message = 'a rule on "loop.done" comes after all calls: its retry never happens'
            compilation.note("W_EVENT_NEVER", place, message, "write retry on the step, or in a rule on call.error")
        return
    if name.startswith("loop.") and step.loop is None:
        message = f'step "{step.name}" never has the event "{name}": it has no loop'
        compilation.note("W_EVENT_NEVER", place, message, "write call.done or step.exit")
        return
    block = _OF_WAITS.get(name)
    if block is not None and getattr(step, block) is None:
        message = f'step "{step.name}" never has the event "{name}": it has no {block} block'
        hint = f"add {block}, or spec.eval_mode: on_event to see the events of the whole execution"
        compilation.note("W_EVENT_NEVER", place, message, hint)


# Boundary events: which ones a step can end with, and the other names they answer to (LOOP-09, TMR-02, design.md §5).

FAILED = "step.failed"
# Names of older playbooks for the boundary event, in every dialect's arcs.
ALIASES = ("call.done", "call.error", "step.exit", "step.enter", "start")


def boundary_events(step: StepSyntax) -> tuple[str, ...]:
    """Every event on which the server evaluates this step's arcs, the usual one first."""
    return (*_endings(step), FAILED, *(("step.interrupted",) if step.on_event and step.on_event.interrupting else ()))


def _endings(step: StepSyntax) -> list[str]:
    if step.loop is not None:
        return ["loop.done"]
    waits = []
    if step.timer is not None:
        waits += ["timer.fired", *(["timer.cancelled"] if step.timer.cancellable else [])]
    if step.message is not None:
        waits += ["message.received"]
        if step.message.timeout is not None and step.message.timeout_action == "escalate":
            waits += ["message.timeout"]
    if step.signal is not None:
        waits += ["signal.received"]
    if step.human_task is not None:
        waits += ["task.completed"]
    return waits or ["step.done"]


def meant_by(alias: str, step: StepSyntax) -> tuple[str, ...]:
    """The boundary events of this step that an alias stands for."""
    events = boundary_events(step)
    match alias:
        case "call.done":
            return tuple(event for event in events if event in ("step.done", "loop.done"))
        case "call.error":
            return (FAILED,)
        case "step.exit":
            return events
    return ()


def names_of(event: str, step: StepSyntax) -> frozenset[object]:
    """Every name that compares equal to this event."""
    return frozenset({event, *(alias for alias in ALIASES if event in meant_by(alias, step))})
