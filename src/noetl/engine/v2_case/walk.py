"""A walk: from one task of a case run to the next, or to its end (O-29).

It begins with the outcome of a task, or with the entry of the step, and moves by single turns until a tool is needed.
What it decides is a new position, a patch of `ctx`, and notes for the log; nothing is changed in place outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.patches import patched
from noetl.engine.v2_case import names, parts, rules
from noetl.engine.v2_case.names import next_task
from noetl.engine.v2_case.parts import BrokenCase
from noetl.engine.v2_case.position import DONE, ENTER, EXIT, FAILED
from noetl.engine.v2_case.repeats import Calling
from noetl.engine.v2_case.routing import taken_transitions
from noetl.events.outcomes import Error, Outcome, TaskResult
from noetl.events.tasks import Decided
from noetl.events.v2_case_positions import CaseDecision, CaseEvaluated, Chosen, OwnEvent, Phase, SinkStarted
from noetl.net.routing import Action
from noetl.net.task import Directive, Task
from noetl.templates.render import holds, render


class CaseWalk(Calling):
    """One walk."""

    # where a walk begins

    def enter(self) -> None:
        """Begin the step run."""
        self._walk()

    def deliver_events(self, events: Sequence[OwnEvent]) -> int:
        """Deliver events of others to a step run that waits, until one of them keeps it busy; how many it took."""
        for heard, event in enumerate(events):
            if not self.waits:
                return heard
            self._change(queue=(event,))
            if event.wait:
                self._waited(event)
            self._walk()
        return len(events)

    def _waited(self, event: OwnEvent) -> None:
        """A wait of the step run itself has ended. If it listens to no other events, it goes on to its exit
        (TMR-02)."""
        self._change(arms=False, given=event.given)
        if not self._on_event:
            self._change(phase=Phase.EXIT, unheard=True)

    def give_up(self) -> None:
        """Nothing can come any more that the step run listens to: it goes on to its exit."""
        self._change(phase=Phase.EXIT, unheard=True)
        self._walk()

    def resume(self, outcome: Outcome) -> None:
        """Go on after the task at the position, which ended with `outcome`."""
        address = self.case.at
        assert address is not None
        task, result = parts.task_at(self.step, address), outcome.as_result()
        self._change(at=None)
        self._read(results={**self.position.results, task.name: result})
        try:
            self._apply_result(address, task, result)
        except BrokenCase as broken:
            self._break(broken)
        self._walk()

    def _apply_result(self, address: str, task: Task, result: TaskResult) -> None:
        if address == parts.CALL:
            self._called(task, result)
        elif parts.is_page_sink(address):
            self._note_sink(task, result)
            self._end_calls(result.error) if result.error else self._sink_or_judge()
        elif address == parts.SINK:
            self._note_sink(task, result)
            if result.error is not None:
                self._change(chosen=None)  # a decision for a result that could not be stored does not stand
                self._failed(task, result.error)
        else:
            if parts.is_rule_sink(self.step, address):
                self._note_sink(task, result)
            self._failed(task, result.error) if result.error is not None else self._done(task)

    # turns

    def _walk(self) -> None:
        try:
            # `at` names the task that has to be run: the walk stops there, and goes on with `resume` when its outcome
            # is known.
            while self.case.at is None and not self.is_over and not self.waits:
                self._turn()
            if self.is_over:
                self._take()
        except BrokenCase as broken:
            self._break(broken)

    @property
    def is_over(self) -> bool:
        return self.case.phase is Phase.OVER and not self.case.matching and not self.case.queue

    @property
    def waits(self) -> bool:
        """Whether only an event of another step can move it (V2C-13)."""
        case = self.case
        at_rest = case.phase is Phase.LISTEN and not case.matching and not case.queue
        return at_rest and case.at is None and case.chosen is None and case.error is None

    def _turn(self) -> None:
        if self.case.matching:
            self._act()
        elif self.case.queue:
            event, *queue = self.case.queue
            self._change(queue=tuple(queue))
            self._deliver(event)
        else:
            self._phase()

    def _phase(self) -> None:
        """The next part of the sequence (O-29)."""
        match self.case.phase:
            case Phase.ENTER:
                self._change(phase=Phase.CALL)
                self._enter()
            case Phase.CALL:
                self._change(phase=Phase.SINK, at=parts.CALL if self.call else None)
            case Phase.SINK:
                self._change(phase=Phase.VARS, listens=self._listens)
                if self.step.sink is not None and self.call is not None and self._succeeded:
                    self._change(at=parts.SINK)
                    self.notes.append(SinkStarted(task=self.step.sink.name))
            case Phase.VARS:
                self._change(phase=Phase.EXIT)
                if self.step.set_ctx is not None and not self.site.looped and self._succeeded:
                    self._set(self.step.set_ctx, self._own_event(DONE), "vars")
            case Phase.EXIT if self._waits_before_exit:
                self._change(phase=Phase.LISTEN, arms=self.step.waits)
            case Phase.LISTEN:  # it has led on, or failed
                self._change(phase=Phase.OVER if self.case.chosen else Phase.EXIT, unheard=True)
            case Phase.EXIT:
                self._change(phase=Phase.ELSE)
                if self.case.chosen is None:
                    self._deliver(self._own_event(EXIT))
            case Phase.ELSE:
                self._change(phase=Phase.OVER)
                self._take_else()
            case Phase.OVER:
                raise AssertionError("a case run that is over has no next part")

    @property
    def _listens(self) -> bool:
        """In `on_event` mode, from the end of the step's own call on (O-27)."""
        return self._on_event and self._undecided

    @property
    def _waits_before_exit(self) -> bool:
        """Whether it waits before its exit: for events of others, or for its own wait blocks (TMR-02)."""
        return (self._on_event or self.step.waits) and self._undecided

    @property
    def _on_event(self) -> bool:
        """An iteration does not wait: its rules see its own events."""
        case = self.step.case
        return case is not None and case.on_event and not self.site.looped

    @property
    def _undecided(self) -> bool:
        return not self.case.unheard and self.case.chosen is None and self.case.error is None

    def _enter(self) -> None:
        case = self.step.case
        self._change(listens=self._listens and self.call is None)
        only = rules.entering(case, has_call=self.call is not None) if case else frozenset()
        if only is None or only:
            self._deliver(OwnEvent(name=ENTER), only=only)

    def _take_else(self) -> None:
        """`else`, where no `when` of the step run matched (V2C-08)."""
        case = self.step.case
        index = rules.else_of(case) if case else None
        if case is None or index is None or self.case.matched or self.case.chosen is not None:
            return
        self._change(event=self._own_event(EXIT), matching=(index,), action=0, repeated=False, matched=True)
        self.notes.append(CaseEvaluated(on=EXIT, mode=_mode(case.inclusive), fired=(index,), otherwise=True))

    # events and rules

    def _own_event(self, name: str) -> OwnEvent:
        return OwnEvent(name=name, task=self.case.result_of, error=self.case.error, given=self.case.given)

    def _deliver(self, event: OwnEvent, *, only: frozenset[int] | None = None) -> None:
        """One pass over the rules; matching rules run afterwards, in order."""
        case = self.step.case
        # Once a transition is chosen the rules are not asked again: of two that match the first one leads on.
        if case is None or self.case.chosen is not None:
            return
        scope = self._scope(names.rule_names(self.step, self.around, self.position, event))
        found = rules.evaluate(case, self.case, scope, now=self.site.now, only=only)
        self._change(cached=found.cached)
        if found.matching:
            self._change(event=event, matching=found.matching, action=0, repeated=False, matched=True)
        self.notes.append(
            CaseEvaluated(on=event.name, mode=_mode(case.inclusive), rules=found.values, fired=found.matching)
        )

    def _act(self) -> None:
        """The next action of the rule that is being run."""
        case = self.step.case
        assert case is not None
        index, at = self.case.matching[0], self.case.action
        rule = case.rules[index]
        action = rule.actions[at] if at < len(rule.actions) else None
        if index not in self.case.fired:
            self._change(fired=(*self.case.fired, index))
        if rule.repeat and not self.case.repeated and (action is None or action.transition):
            self._change(repeated=True)
            self._repeat(index)
        elif action is None:
            self._change(matching=self.case.matching[1:], action=0, repeated=False)
        else:
            self._do(index, at, action)

    def _do(self, index: int, at: int, action: Action) -> None:
        event = self.case.event
        assert event is not None
        self._change(action=at + 1)
        if action.task is not None:
            self._change(at=parts.action_address(index, at))
            if action.sink:
                self.notes.append(SinkStarted(task=action.task.name))
        elif action.set_ctx is not None:
            self._set(action.set_ctx, event, f"set of case rule {index}")
        elif self._passes(action, event, index):
            self._change(chosen=Chosen(rule=index, action=at, event=event), matching=(), queue=())

    def _passes(self, action: Action, event: OwnEvent, index: int) -> bool:
        """A false guard skips the transition (V2C-12)."""
        if action.guard is None:
            return True
        scope = self._scope(names.rule_names(self.step, self.around, self.position, event))
        try:
            return holds(action.guard, scope, now=self.site.now)
        except (TemplateError, ToolError) as problem:
            raise BrokenCase(f"guard of case rule {index}", problem) from None

    def _set(self, values: Any, event: OwnEvent, where: str) -> None:
        scope = self._scope(names.rule_names(self.step, self.around, self.position, event))
        try:
            patch = render(values, scope, now=self.site.now, keys=True)
        except (TemplateError, ToolError) as problem:
            raise BrokenCase(where, problem) from None
        if not isinstance(patch, dict):
            raise BrokenCase(where, TemplateError("a mapping of names to values is needed"))
        self.patch = {**self.patch, **patch}
        self.around = msgspec.structs.replace(self.around, ctx=patched(self.around.ctx, patch))

    # tools in then lists

    def _done(self, task: Task) -> None:
        """In `on_entry` mode beside a call of the step, only errors of other tools are events (V2C-14)."""
        if self.call is None:
            self._change(result_of=task.name)
        if self.call is None or (self.step.case is not None and self.step.case.on_event):
            self._change(queue=(*self.case.queue, OwnEvent(name=DONE, task=task.name)))

    def _failed(self, task: Task, error: Error) -> None:
        """A failing task ends its list and the pass; the rules see it (V2C-11)."""
        event = OwnEvent(name=FAILED, task=task.name, error=error)
        self._change(error=error, matching=(), queue=(*self.case.queue, event))

    # the end

    def _take(self) -> None:
        """Render the transition now that it is taken (V2C-25, V2C-26)."""
        chosen = self.case.chosen
        if chosen is None:
            return
        assert self.step.case is not None
        action = self.step.case.rules[chosen.rule].actions[chosen.action]
        scope = self._scope(names.rule_names(self.step, self.around, self.position, chosen.event))
        self._change(taken=taken_transitions(action, chosen, scope, steps=self.site.steps, now=self.site.now))

    def _break(self, broken: BrokenCase) -> None:
        error = broken.error(self.step.name)
        self._change(phase=Phase.OVER, at=None, matching=(), queue=(), chosen=None, taken=(), error=error)


def _mode(inclusive: bool) -> str:
    return "inclusive" if inclusive else "exclusive"


# The decision of a walk, in the shape of all pipeline decisions.


def decided(walk: CaseWalk, *, again: bool = False) -> Decided:
    """`again`: the task that just ran runs once more, as another attempt of the same visit."""
    case = walk.case
    following = next_task(walk.step, walk.position).name if case.at is not None else None
    failed = case.error if walk.is_over else None
    return Decided(
        rule="case",
        do=_directive(again, following is not None or walk.waits, failed is not None).value,
        next=following,
        delay_s=walk.delay_s,
        set_ctx=walk.patch,
        error=failed,
        case=CaseDecision(position=case, notes=tuple(walk.notes), keeps_page=walk.keeps_page),
    )


def _directive(again: bool, goes_on: bool, failed: bool) -> Directive:
    if again:
        return Directive.RETRY
    if goes_on:
        return Directive.CONTINUE
    return Directive.FAIL if failed else Directive.BREAK
