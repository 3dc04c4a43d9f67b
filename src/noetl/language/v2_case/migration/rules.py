"""Case rules sorted into what v10 has for them (MIG-03): tasks of the pipeline, arcs, or a step of their own.

A rule that only leads on is an arc. Tasks that every successful call is followed by join the pipeline. Tasks under a
condition become a `choose`, or, when they lead on too, a step between the old one and its target.
"""

from __future__ import annotations

import re

import msgspec

from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node
from noetl.language.reading.playbook import CaseExit, CaseRuleSyntax, SetVars, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import ERROR, Guard, condition, read_guard

_LOOP_DONE = re.compile(r"""["']loop\.done["']""")


class RuleParts(msgspec.Struct, frozen=True):
    """One rule taken apart. `guard` None: it cannot be told what it asks for."""

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
    """What a step's conditions can see: the names it has for results, by the event that is asked for."""

    step: StepSyntax
    view: str
    unwraps: bool  # the call's payload is the data member of its result (O-22)

    @property
    def looped(self) -> bool:
        return self.step.loop is not None

    def arc_names(self, guard: Guard) -> dict[str, str]:
        """What v2-case's names are in an arc of this step."""
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
    """What stands under `then` or `else`."""
    assert isinstance(rule.node, Mapping)
    return rule.node.get("then") or rule.node.values["else"]
