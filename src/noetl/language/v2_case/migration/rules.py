"""Case rules sorted into what v10 has for them (MIG-03): tasks of the pipeline, arcs, or a step of their own.

A rule that only leads on is an arc. Tasks that every successful call is followed by join the pipeline. Tasks under a
condition become a `choose`, or, when they lead on too, a step between the old one and its target.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from noetl.base.template_names import paths, template
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, scalars
from noetl.language.reading.playbook import CaseExit, CaseRuleSyntax, SetVars, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import (
    DONE,
    ERROR,
    EXIT,
    Guard,
    condition,
    read_guard,
)

_LOOP_DONE = re.compile(r"""["']loop\.done["']""")


class RuleParts(msgspec.Struct, frozen=True):
    """One rule taken apart. `guard` None: its condition is unknown."""

    rule: CaseRuleSyntax
    guard: Guard | None
    tasks: tuple[TaskSyntax, ...]
    sets: tuple[SetVars, ...]
    transition: CaseExit | None

    @property
    def works(self) -> bool:
        return bool(self.tasks or self.sets)

    @property
    def is_after_loop(self) -> bool:
        """Whether it asks for `loop.done`: judged once, when all iterations have ended (V2C-23)."""
        return self.rule.when is not None and _LOOP_DONE.search(str(self.rule.when.value)) is not None


def take_apart(rule: CaseRuleSyntax, notes: Notes, *, looped: bool) -> RuleParts:
    tasks = tuple(action for action in rule.actions if isinstance(action, TaskSyntax))
    sets = tuple(action for action in rule.actions if isinstance(action, SetVars))
    transitions = [action for action in rule.actions if isinstance(action, CaseExit)]
    if transitions and (len(transitions) > 1 or not isinstance(rule.actions[-1], CaseExit)):
        hint = "write one rule per way out; each becomes an arc"
        notes.blocked(transitions[0], "something follows this transition, and a v10 arc is the last thing", hint)
    for at, later in enumerate(sets):
        if at and _reads_state([later.values], {key for earlier in sets[:at] for key in earlier.values.values}):
            hint = "write the value out instead of the name"
            notes.blocked(later, "this set reads what one before it wrote, and set_ctx writes all at once", hint)
    if rule.retry:
        notes.blocked(
            rule.retry[0], "a case rule that retries", "write the retry on the step: it becomes a policy rule"
        )
    if rule.strict:
        message = "eval: strict makes undefined names an error, and v10 conditions are lenient"
        notes.blocked(rule, message, "test the name: {{ name is defined and … }}")
    if not looped and rule.when is not None and "loop.iteration." in str(rule.when.value):
        notes.blocked(rule.when, "a step without a loop never has this event", "leave the rule out, or add a loop")
    guard = read_guard(rule.when)
    if guard is None:
        notes.blocked(rule.when or rule, "this condition is more than one expression", "write it as one {{ … }}")
    return RuleParts(rule, guard, tasks, sets, transitions[0] if transitions else None)


class Looks(msgspec.Struct, frozen=True):
    """The names that a step's conditions can read: the names for results, by event."""

    step: StepSyntax
    view: str
    # Whether the payload of the call is the `data` member of its result (O-22).
    unwraps: bool

    @property
    def looped(self) -> bool:
        return self.step.loop is not None

    def arc_names(self, guard: Guard) -> dict[str, str]:
        """The names of v2-case in an arc of this step."""
        if guard.only(ERROR):
            return {
                "vars": "ctx",
                "response.status_code": "event.error.status",
                "response.error": "event.error",
                "error": "event.error",
                "this": self.view,
                "result": "event.result",
            }
        if guard.waits:
            return {"vars": "ctx", "result": "event.result", "response": "event.data", "this": "event"}
        names = {"vars": "ctx", "result": "event.result", "this": self.view, "error": "event.error"}
        if self.unwraps:
            return {**names, "response.data": "event.result", "response": f"{self.view}.result"}
        return {**names, "response": "event.result"}

    def arc_condition(self, guard: Guard) -> str | None:
        """A rule's condition as an arc's. `error` is no name of conditions (V2C-05)."""
        names = {name: new for name, new in self.arc_names(guard).items() if name != "error"}
        return condition(guard, names, looped=self.looped)


def then_part(rule: CaseRuleSyntax) -> Node:
    """The contents of `then` or `else`."""
    assert isinstance(rule.node, Mapping)
    return rule.node.get("then") or rule.node.values["else"]


# The case rules of one step, taken apart, and how they bear on each other (V2C-06…12, O-29).

# Two names for the same store (V2C-21).
_STATE = ("vars", "ctx")


class StepRules:
    """`all` are in the step's own order. `inclusive`: every rule that matches runs, up to the first that leads on."""

    def __init__(self, looks: Looks, notes: Notes) -> None:
        self.looks, self.notes = looks, notes
        self.inclusive = looks.step.options.case_mode == "inclusive"
        case = looks.step.case
        self.all = [take_apart(rule, notes, looped=looks.looped) for rule in case.rules] if case is not None else []

    @property
    def works(self) -> int:
        """How many rules run tasks, which can fail."""
        return sum(bool(parts.tasks) for parts in self.all)

    @property
    def is_success_and_failure(self) -> bool:
        """Whether one rule works after every success and the other one after every failure, that of the first one's
        work too (V2C-11): a pipeline and an arc on step.failed do the same."""
        guards = [parts.guard for parts in self.all if parts.guard is not None and not parts.guard.rest]
        alone = len(self.all) == 2 and not self.inclusive and not self.looks.looped and self.looks.step.tasks
        return bool(alone) and [any(one.only(event) for one in guards) for event in (DONE, ERROR)] == [True, True]

    def taken_before(self, guard: Guard, position: int) -> list[RuleParts]:
        """The rules that keep this one from running when they match, and that no order of arcs puts before it."""
        earlier = [other for other in self.all[:position] if other.guard is not None and other.guard.competes(guard)]
        taken = [other for other in earlier if other.transition is not None or not self.inclusive]
        if guard.only(EXIT):
            on_call = [other for other in self.all if other.guard is not None and not other.guard.only(EXIT)]
            taken += [other for other in on_call if other.transition is not None and other.rule.when is not None]
        # By identity: two rules may say the same.
        unique = {id(other): other for other in taken if other.guard is not None and other.guard.overlaps(guard)}
        return list(unique.values())

    def is_before_vars(self, parts: RuleParts) -> bool:
        """Whether the step's vars write or read what this rule sets before them, or it reads what they write (O-29):
        set_ctx writes all at once."""
        step_vars = self.looks.step.vars
        if step_vars is None or not parts.sets:
            return False
        values = [one.values for one in parts.sets]
        keys, written = {key for one in values for key in one.values}, step_vars.values.keys()
        before = parts.guard is None or not parts.guard.only(EXIT)
        return bool(keys & written) or _reads_state([step_vars], keys) or (before and _reads_state(values, written))

    def goes_on(self, parts: RuleParts) -> bool:
        """Whether a failed call whose rule leads nowhere could still lead on: by another rule, or tolerated."""
        others = [other for other in self.all if other is not parts and other.rule.when is not None]
        guards = [other.guard for other in others if other.guard is not None and other.guard.after_failure]
        later = [its for its in guards if self.inclusive or its.events is None or EXIT in its.events]
        return bool(later) or self.looks.step.options.on_error == "continue" or parts.rule.when is None

    def taking_failures(self, parts: RuleParts) -> list[RuleParts]:
        """The other rules that a failure of this one's work can come to (V2C-11)."""
        others = [other for other in self.all if other is not parts and other.rule.when is not None]
        return [other for other in others if other.guard is not None and other.guard.after_failure]

    def check_turns(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> None:
        """A rule of two events, of which another took the one, still has the other: an arc is only looked at once."""
        stays = guard.is_wide and parts.transition is None
        rivals = [other.guard for other in taken if other.guard is not None and (stays or other.transition is None)]
        if parts.rule.when is not None and rivals and (guard.is_wide or any(other.is_wide for other in rivals)):
            hint = "name one event in each: event.name == 'call.done' and …"
            message = "one of two rules takes any event: the one that the other leaves, or the next one"
            self.notes.blocked(parts.rule, message, hint)

    def check_order(self, parts: RuleParts, guard: Guard) -> None:
        """An arc reads all values at the same time: assignments of rules, and results of tasks that a rule waited
        for."""
        others = [other for other in self.all if other is not parts and other.guard is not None]
        working = [other for other in others if other.tasks and other.guard and other.guard.on_entry]
        if guard.events and guard.only(DONE, ERROR) and not self.looks.step.tasks and not working:
            hint = "ask for step.exit, or leave the rule out"
            self.notes.blocked(parts.rule, "this rule asks how a call went, and the step makes none", hint)
        rivals = [one.values for other in others if other.guard and other.guard.competes(guard) for one in other.sets]
        if self.looks.step.vars is not None and not guard.only(EXIT):
            rivals.append(self.looks.step.vars)
        written = {key.partition(".")[0] for values in rivals for key in values.values}
        read = {path[1] for part in guard.rest for path in paths(template(part)) if path[0] in _STATE and len(path) > 1}
        for name in sorted(read & written):
            message = f'this condition reads "{name}" as it was before the step set it, and arcs see it afterwards'
            self.notes.blocked(parts.rule, message, "give one of them another name")

    def task_names(self) -> set[str]:
        return {task.name for parts in self.all for task in parts.tasks if task.name}

    def check_reads(self, parts: RuleParts, tasks: set[str], texts: list[str]) -> None:
        """Arcs and other steps see no results of tasks, only those of steps (SCOPE-10)."""
        for name in sorted({path[0] for text in texts for path in paths(text)} & tasks):
            message = f'the task "{name}" is read where v10 only sees the results of steps'
            self.notes.blocked(parts.rule, message, "keep the value with set_ctx, and read it from ctx")


def template_texts(nodes: Iterable[Node | None]) -> list[str]:
    return [str(scalar.value) for node in nodes if node is not None for scalar in scalars(node)]


def _reads_state(nodes: Iterable[Node], keys: Collection[str]) -> bool:
    """Whether templates read any of these variables, by any of their names, or all of them."""
    read = {path for text in template_texts(nodes) for path in paths(text)}
    names = {path[:2][-1] if path[0] in _STATE else path[0] for path in read}
    return any(name in keys or name in _STATE for name in names)


def after_success(rules: list[RuleParts]) -> list[Guard]:
    """The conditions of those rules that a successful call can meet."""
    return [parts.guard for parts in rules if parts.guard is not None and parts.guard.after_success]
