"""The case rules of one step, taken apart, and how they bear on each other (V2C-06…12, O-29).

Which rule takes an event before another, what an earlier one sets that a later one reads, and where the failure of one
rule's work goes. What no arrangement of arcs can keep is noted here; `rule_placement.py` says what each rule becomes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from noetl.language.migrating.names import paths, template
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Node, scalars
from noetl.language.v2_case.migration.guards import (
    DONE,
    ERROR,
    EXIT,
    Guard,
)
from noetl.language.v2_case.migration.rules import Looks, RuleParts, take_apart

_STATE = ("vars", "ctx")  # one store under two names (V2C-21)


class StepRules:
    """`all` are in the step's own order. `inclusive`: every rule that matches runs, up to the first that leads on."""

    def __init__(self, looks: Looks, notes: Notes) -> None:
        self.looks, self.notes = looks, notes
        self.inclusive = looks.step.case_mode == "inclusive"
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
        return bool(later) or self.looks.step.on_error == "continue" or parts.rule.when is None

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
        """What an arc sees is all there at once: what rules set, and which of them had something to wait for."""
        others = [other for other in self.all if other is not parts and other.guard is not None]
        told = [other for other in others if other.tasks and other.guard and other.guard.on_entry]
        if guard.events and guard.only(DONE, ERROR) and not self.looks.step.tasks and not told:
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
