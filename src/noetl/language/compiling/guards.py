"""Checks of guards, the conditions of arcs and rules, without running them (VAL-20, design.md §5).

- A guard that compares with an event which its step never has is never true (`check_event_names`).
- An arc behind one that is always taken first is never reached (`check_shadows`).
- Outcomes and tokens that no rule takes are probably a mistake (`check_unmatched`).

`decided` evaluates the boolean shape of a guard, given facts: the known value of a chain of names. An event has several
names at once. Everything else may be true or false, and a guard is decided only if that makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as ReadOnlyMapping
from itertools import product

from noetl.base.diagnostics import PositionedDiagnostic, is_template, nearest_word
from noetl.base.template_names import paths
from noetl.language.compiling.lowering.values import loops_of, word
from noetl.language.compiling.passes import Compilation, every_task, head, key_place
from noetl.language.compiling.text_positions import name_in, parsed, parsed_guard
from noetl.language.reading.nodes import Mapping, Scalar, inner, scalars
from noetl.language.reading.playbook import (
    Admit,
    ArcSyntax,
    CaseExit,
    CaseRuleSyntax,
    Dialect,
    Playbook,
    PolicySyntax,
    StepSyntax,
    TaskSyntax,
)
from noetl.templates.logic import And, Compare, Const, Not, Opaque, Or, Path, Shape

_ENTRIES = ("step.enter", "start")
# Events of a wait block only; without one, a case rule that sees only its own step's events never receives them.
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
            for name, place in _compared_names(arc.when, playbook):
                _check_arc_event(name, place, step, compilation)
        # With `on_event` a rule receives the events of the whole execution, with any name.
        if step.case is not None and step.options.eval_mode != "on_event":
            for rule in step.case.rules:
                for name, place in _compared_names(rule.when, playbook):
                    _check_rule_event(name, place, step, rule, compilation)
                _check_loop_rule(step, rule, playbook, compilation)
    return playbook


_OF_ITERATION = frozenset({"iter", "loop", "loop_index", "result", "response", "this", "event", "error"})


def _check_loop_rule(step: StepSyntax, rule: CaseRuleSyntax, playbook: Playbook, compilation: Compilation) -> None:
    """W_CASE_IN_LOOP: a rule with tasks and a target that do not read the element was meant for the end of the loop."""
    works = any(isinstance(action, TaskSyntax) for action in rule.actions)
    leads = any(isinstance(action, CaseExit) for action in rule.actions)
    asked = [name for name, _ in _compared_names(rule.when, playbook)]
    if step.loop is None or rule.when is None or not (works and leads) or "call.done" not in asked:
        return
    assert isinstance(rule.node, Mapping)
    texts = (str(scalar.value) for scalar in scalars(rule.node.values["then"]))
    read = {path[0] for text in texts if is_template(text) for path in paths(text)}
    if not read & {*_OF_ITERATION, *(str(loop.iterator.value) for loop in loops_of(step.loop))}:
        message = f'this rule runs its tasks in every iteration of "{step.name}", and none of them is about the element'
        hint = "write event.name == 'loop.done' to run them once, after the loop"
        compilation.note("W_CASE_IN_LOOP", rule.when, message, hint)


def _compared_names(when: Scalar | None, playbook: Playbook) -> Iterator[tuple[str, PositionedDiagnostic]]:
    """The names that `event.name` is compared with, each with its place."""
    template = parsed_guard(when)
    if template is None or when is None:
        return
    for test in template.comparisons:
        if test.root == "event" and test.path == ("name",) and test.op in ("==", "in"):
            for name in test.values:
                if isinstance(name, str):
                    yield name, name_in(when, name, playbook.source, quoted=True)


def _check_arc_event(name: str, place: PositionedDiagnostic, step: StepSyntax, compilation: Compilation) -> None:
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
    guess = nearest_word(name, events)
    hint = f'did you mean "{guess}"? {ends}' if guess else ends
    compilation.note("W_EVENT_NEVER", place, f'step "{step.name}" never has the event "{name}"', hint)


def _check_rule_event(
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
    if block is not None and getattr(step.blocks, block) is None:
        message = f'step "{step.name}" never has the event "{name}": it has no {block} block'
        hint = f"add {block}, or spec.eval_mode: on_event to see the events of the whole execution"
        compilation.note("W_EVENT_NEVER", place, message, hint)


# Boundary events: which ones a step can end with, and the other names they answer to (LOOP-09, TMR-02, design.md §5).

FAILED = "step.failed"
# Names of older playbooks for the boundary event, in every dialect's arcs.
ALIASES = ("call.done", "call.error", "step.exit", "step.enter", "start")


def boundary_events(step: StepSyntax) -> tuple[str, ...]:
    """Every event for which the server evaluates the arcs of this step, the usual one first."""
    handled = step.blocks.on_event
    return (*_endings(step), FAILED, *(("step.interrupted",) if handled and handled.interrupting else ()))


def _endings(step: StepSyntax) -> list[str]:
    if step.loop is not None:
        return ["loop.done"]
    blocks, waits = step.blocks, []
    if blocks.timer is not None:
        waits += ["timer.fired", *(["timer.cancelled"] if blocks.timer.cancellable else [])]
    if blocks.message is not None:
        waits += ["message.received"]
        if blocks.message.timeout is not None and blocks.message.timeout_action == "escalate":
            waits += ["message.timeout"]
    if blocks.signal is not None:
        waits += ["signal.received"]
    if blocks.human_task is not None:
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


Facts = ReadOnlyMapping[tuple[str, Path], frozenset[object]]
# The facts about an outcome that is an error.
ERROR_OUTCOME: Facts = {
    ("outcome", ("status",)): frozenset({"error"}),
    # Any value that is true: the actual error is not known.
    ("outcome", ("error",)): frozenset({"an error"}),
    ("outcome", ("result",)): frozenset({None}),
}
# Number of atoms. 2**8 = 256 cases are fast; the number doubles with each further atom.
_MANY = 8


def shape_of(when: Scalar | None) -> Shape:
    """The boolean shape of a written guard; absent means always, unreadable means unknown."""
    if when is None:
        return Const(True)
    text = str(when.value)
    if not is_template(text):
        return Const(text.strip().lower() == "true")
    template = parsed(text)
    return template.shape if template is not None else Opaque(text)


def decided(shape: Shape, facts: Facts, assumed: ReadOnlyMapping[Shape, bool] | None = None) -> bool | None:
    """Whether a guard holds under the facts; None if that depends on something else."""
    match shape:
        case Const():
            return shape.value
        case Not():
            part = decided(shape.part, facts, assumed)
            return None if part is None else not part
        case And():
            return _all_hold(decided(part, facts, assumed) for part in shape.parts)
        case Or():
            # `a or b` is not (not a and not b): one function decides both.
            holds = _all_hold(_opposite(decided(part, facts, assumed)) for part in shape.parts)
            return _opposite(holds)
        case Compare():
            known = facts.get((shape.root, shape.path))
            holds = _test_result(shape, known) if known is not None else None
            return holds if holds is not None else (assumed or {}).get(shape)
        case Opaque():
            return (assumed or {}).get(shape)


def cover(shapes: Iterable[Shape], facts: Facts) -> bool:
    """Whether in every case that the facts leave open at least one of the guards holds."""
    either = Or(tuple(shapes))
    atoms = list(dict.fromkeys(atom for atom in tests_of(either) if decided(atom, facts) is None))
    # Too many cases to try: then a guard counts only if it holds without knowing its atoms.
    if len(atoms) > _MANY:
        return decided(either, facts) is True
    cases = product((True, False), repeat=len(atoms))
    return all(decided(either, facts, dict(zip(atoms, case, strict=True))) is True for case in cases)


def _all_hold(parts: Iterable[bool | None]) -> bool | None:
    truths = list(parts)
    if any(part is False for part in truths):
        return False
    return None if any(part is None for part in truths) else True


def _opposite(value: bool | None) -> bool | None:
    return None if value is None else not value


def _test_result(test: Compare, known: frozenset[object]) -> bool | None:
    match test.op:
        case "==" | "in":
            return any(value in known for value in test.values)
        case "!=" | "not in":
            return not any(value in known for value in test.values)
        case "truthy":
            return any(bool(each) for each in known)
        case "defined":
            return True
    return None


def tests_of(shape: Shape) -> Iterator[Compare | Opaque]:
    """The tests in a guard, each with its place."""
    match shape:
        case And() | Or():
            for part in shape.parts:
                yield from tests_of(part)
        case Not():
            yield from tests_of(shape.part)
        case Compare() | Opaque():
            yield shape


# Shadows: arcs of an exclusive router that an earlier one always takes first (VAL-20, ROUTE-03, ROUTE-05, C-09).


def check_shadows(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ARC_SHADOWED."""
    spec = playbook.executor.spec if playbook.executor else None
    everywhere = word(inner(spec, "unguarded"), "") == "always"
    for step in playbook.steps:
        if step.router is not None and step.router.mode == "exclusive":
            always = everywhere or word(inner(step.router.spec, "unguarded"), "") == "always"
            _check_shadow(step, step.router.arcs, always, playbook.dialect.rules, compilation)
    return playbook


def _check_shadow(
    step: StepSyntax, arcs: tuple[ArcSyntax, ...], always: bool, dialect: Dialect, compilation: Compilation
) -> None:
    """An unguarded arc takes every event but a failure; a guard that is always true takes that as well."""
    earlier: ArcSyntax | None = None
    for arc in arcs:
        if earlier is not None:
            takes_failures = always or earlier.when is not None
            if takes_failures or not _asks_for_failure(arc, step):
                _note(arc, earlier, dialect, compilation)
        elif arc.when is None or shape_of(arc.when) == Const(True):
            earlier = arc


def _asks_for_failure(arc: ArcSyntax, step: StepSyntax) -> bool:
    """Whether a guard reads the event and can hold for a failure."""
    template = parsed_guard(arc.when)
    if template is None or not any(read.root == "event" for read in template.references):
        return False
    return decided(template.shape, {("event", ("name",)): names_of(FAILED, step)}) is not False


def _note(arc: ArcSyntax, earlier: ArcSyntax, dialect: Dialect, compilation: Compilation) -> None:
    inclusive = "next.spec.mode: inclusive" if dialect is Dialect.V10 else "spec.next_mode: inclusive"
    first = f'the arc to "{earlier.target.value}" (line {earlier.target.span.line})'
    message = f"this arc is never taken: {first} always comes first"
    hint = f"move this arc before it, give that one a condition (when), or write {inclusive} to take both"
    compilation.note("W_ARC_SHADOWED", arc.target, message, hint)


# Unmatched: outcomes and tokens that no rule takes, where that is probably not meant (VAL-20, POL-02, ADM-04).


def check_unmatched(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_UNMATCHED and W_ADMIT_NO_ELSE."""
    spec = playbook.executor.spec if playbook.executor else None
    default = word(inner(spec, "policy", "defaults", "on_unmatched"), "continue")
    for task, pipeline in every_task(playbook):
        policy = task.policy
        if policy is None or policy.strict or task.generated or task.kind == "noop" or pipeline.is_hook:
            continue  # a noop has no errors
        if (policy.on_unmatched or default) == "continue":
            _check_errors(policy, compilation)
    for step in playbook.steps:
        if step.admit is not None:
            _check_admission(step.admit, compilation)
    return playbook


def _check_errors(policy: PolicySyntax, compilation: Compilation) -> None:
    if not cover((shape_of(rule.when) for rule in policy.rules), ERROR_OUTCOME):
        compilation.note(
            "W_ERROR_UNMATCHED",
            key_place(policy.node, "rules", head(policy)),
            "an error that matches none of these rules is ignored: the pipeline goes on",
            "add {when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}, or on_unmatched: fail",
        )


def _check_admission(admit: Admit, compilation: Compilation) -> None:
    if admit.rules and not any(shape_of(rule.when) == Const(True) for rule in admit.rules):
        compilation.note(
            "W_ADMIT_NO_ELSE",
            key_place(admit.node, "rules", head(admit)),
            "a token that matches none of these rules is denied",
            "add - else: {then: {allow: false}} to say so, or allow: true to let it in",
        )
