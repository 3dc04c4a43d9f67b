"""Repeats: whether a call is made again, after how long and with which inputs (V2C-16 to V2C-19).

After every call the first policy that holds decides. Each has its own count, the first call included; a count of errors
starts again after a response, so that a failure on the fiftieth page has all its attempts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.pipeline.policy import delay_seconds, jitter_share, number_of
from noetl.engine.v2_case import names, parts
from noetl.engine.v2_case.parts import BrokenCase
from noetl.engine.v2_case.position import DONE, FAILED, CaseStanding
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.events.v2_case_positions import CaseCalls, OwnEvent, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.net.task import Directive, Repeat, Task
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored, deep_merged

_LONGEST_S = 1e9  # the delay if exponential growth overflows a float


class Again(msgspec.Struct, frozen=True):
    """The call is to be repeated, because of this policy."""

    policy: int
    calls: CaseCalls
    delay_s: float


class Exhausted(msgspec.Struct, frozen=True):
    """A policy asked for another call and has none left."""

    policy: int
    attempts: int
    continues: bool


def counted(calls: CaseCalls, result: TaskResult) -> CaseCalls:
    """The sequence after one more call with this result."""
    if result.error is not None:
        return msgspec.structs.replace(calls, count=calls.count + 1, streak=calls.streak + 1)
    # A response ends the row of errors, so every page of a sequence has all of its retries again.
    return msgspec.structs.replace(
        calls, count=calls.count + 1, streak=0, responses=calls.responses + 1, errors={}, sinks=0
    )


def judge(
    policies: tuple[Repeat, ...], calls: CaseCalls, result: TaskResult, scope: Scope, *, now: float, spread: float
) -> Again | Exhausted | None:
    """The decision of the policies after a call, None if no policy matches."""
    failed = result.error is not None
    for index, policy in enumerate(policies):
        try:
            if failed if policy.when is None else holds(policy.when, scope, now=now):
                return _selected_policy(index, policy, calls, failed, _Terms(scope, now, spread))
        except (TemplateError, ToolError, ValueError) as problem:
            raise BrokenCase(f"retry policy {index}", problem) from None
    return None


class _Terms(msgspec.Struct, frozen=True):
    scope: Scope
    now: float
    spread: float

    def render(self, written: Authored | None) -> Any:
        return render(written, self.scope, now=self.now) if written is not None else None


def _selected_policy(index: int, policy: Repeat, calls: CaseCalls, failed: bool, terms: _Terms) -> Again | Exhausted:
    counts = calls.errors if failed else calls.successes
    # The first call counts as one attempt of every policy.
    made = counts.get(index, 1)
    written = terms.render(policy.max_attempts)
    limit = 1.0 if written is None else number_of(written, "max_attempts", float)
    if made >= limit:
        return Exhausted(index, made, policy.on_exhausted is Directive.CONTINUE)
    counts = {**counts, index: made + 1}
    over = terms.render(policy.next_call)
    if over is not None and not isinstance(over, dict):
        raise ValueError("next_call must give the inputs to change, as a mapping")
    changed = msgspec.structs.replace(
        calls,
        errors=counts if failed else calls.errors,
        successes=calls.successes if failed else counts,
        over=deep_merged(calls.over, over) if over else calls.over,
        policy=index,
    )
    return Again(index, changed, _delay(policy, made, terms))


def _delay(policy: Repeat, nth: int, terms: _Terms) -> float:
    """`initial_delay` grown for the nth repetition: by its multiplier, by its number, or not at all (V2C-18, C-16)."""
    written = terms.render(policy.initial_delay)
    if written is None:
        return 0.0
    first = delay_seconds(written, terms.now)
    match policy.mode:
        case "linear":
            delay = first * nth
        case "fixed":
            delay = first
        case _:
            base = terms.render(policy.multiplier)
            delay = first * _power(2.0 if base is None else number_of(base, "backoff_multiplier", float), nth - 1)
    if (cap := terms.render(policy.max_delay)) is not None:
        delay = min(delay, delay_seconds(cap, terms.now))
    # Jitter only shortens: `max_delay` stays the upper bound.
    return max(0.0, delay - delay * jitter_share(terms.render(policy.jitter)) * terms.spread)


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except OverflowError:
        # A multiplier of 10 is beyond the range of a float after some 300 attempts.
        return _LONGEST_S


def exhausted_error(task: str, exhausted: Exhausted, cause: Error) -> Error:
    """The error of exhausted retries (V2C-19), which includes the error of the last call."""
    message = f'the call of task "{task}" still failed after {exhausted.attempts} attempts'
    return Error(kind="retry.exhausted", message=message, status=cause.status, code=cause.code, cause=cause)


# The step's call and its repetitions, with the sinks of its responses (V2C-16 to V2C-19, O-28).


class Calling(CaseStanding):
    def _called(self, task: Task, result: TaskResult) -> None:
        calls = self.case.calls
        if calls.policy is not None:
            count = calls.count + 1
            self.notes.append(RetryProcessed(task=task.name, policy=calls.policy, count=count, status=_status(result)))
        self._change(calls=counted(calls, result), result_of=task.name, error=None)
        if result.error is None and any(policy.collect for policy in self._policies):
            self.keeps_page = True
            self._read(pages=(*self.position.pages, result))
        self._sink_or_judge()

    @property
    def _policies(self) -> tuple[Repeat, ...]:
        return parts.policies_of(self.step, self.case.calls.rule)

    def _sink_or_judge(self) -> None:
        """The sinks of a response, one after another; then the policies decide (O-28)."""
        assert self.call is not None
        calls = self.case.calls
        if self.position.results[self.call.name].error is None:
            for index, policy in enumerate(self._policies):
                if policy.sink is not None and index >= calls.sinks:
                    sinks = msgspec.structs.replace(calls, sinks=index + 1)
                    self._change(at=parts.page_address(calls.rule, index), calls=sinks)
                    self.notes.append(SinkStarted(task=policy.sink.name))
                    return
        self._end_calls(None) if not self._calls_again() else None

    def _calls_again(self) -> bool:
        """Whether the call is made again; a sequence that ran out ends here."""
        assert self.call is not None
        result, calls = self.position.results[self.call.name], self.case.calls
        scope = self._scope(names.retry_names(self.step, self.around, self.position, self.call))
        found = judge(self._policies, calls, result, scope, now=self.site.now, spread=self.site.spread)
        match found:
            case Again(policy, changed, delay_s):
                self._change(at=parts.CALL, calls=changed)
                self.delay_s = delay_s
                self.notes.append(
                    RetryStarted(task=self.call.name, policy=policy, count=calls.count + 1, delay_s=delay_s)
                )
                return True
            case Exhausted() if result.error is not None:
                error = exhausted_error(self.call.name, found, result.error)
                self._end_calls(error, tolerated=found.continues)
                return True
            case _:
                return False

    def _end_calls(self, error: Error | None, *, tolerated: bool = False) -> None:
        """The sequence is over: its one event is raised (V2C-19), at once or after the pass that repeated it."""
        assert self.call is not None
        error = error or self.position.results[self.call.name].error
        event = OwnEvent(name=FAILED if error else DONE, task=self.call.name, error=error)
        calls = msgspec.structs.replace(self.case.calls, policy=None)
        self._change(error=None if tolerated else error, calls=calls, queue=(*self.case.queue, event))

    def _repeat(self, rule: int) -> None:
        """`retry` of a case rule: its policies judge the call that has been made, and go on from there."""
        if self.call is None or self.call.name not in self.position.results:
            return
        before = self.case.calls
        self._change(calls=CaseCalls(rule=rule, count=before.count, responses=before.responses, over=before.over))
        # The rule's policies had nothing to say: the sequence of the step goes on as if they had not been asked.
        if not self._calls_again():
            self._change(calls=before)

    def _note_sink(self, task: Task, result: TaskResult) -> None:
        self.notes.append(SinkProcessed(task=task.name, status=_status(result)))


def _status(result: TaskResult) -> Status:
    return Status.ERROR if result.error else Status.SUCCESS
