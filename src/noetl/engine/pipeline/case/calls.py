"""The step's call and its repetitions, with the sinks of its responses (V2C-16 to V2C-19, O-28).

A sequence ends with one event, whatever came before.
"""

from __future__ import annotations

import msgspec

from noetl.engine.pipeline.case import names, parts, repeats
from noetl.engine.pipeline.case.position import DONE, FAILED, CaseStanding
from noetl.events.cases import CaseCalls, OwnEvent, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.net.task import Repeat, Task


class Calling(CaseStanding):
    def _called(self, task: Task, result: TaskResult) -> None:
        calls = self.case.calls
        if calls.policy is not None:
            count = calls.count + 1
            self.notes.append(RetryProcessed(task=task.name, policy=calls.policy, count=count, status=_status(result)))
        self._change(calls=repeats.counted(calls, result), result_of=task.name, error=None)
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
        found = repeats.judge(self._policies, calls, result, scope, now=self.site.now, spread=self.site.spread)
        match found:
            case repeats.Again(policy, changed, delay_s):
                self._change(at=parts.CALL, calls=changed)
                self.delay_s = delay_s
                self.notes.append(
                    RetryStarted(task=self.call.name, policy=policy, count=calls.count + 1, delay_s=delay_s)
                )
                return True
            case repeats.Exhausted() if result.error is not None:
                error = repeats.exhausted_error(self.call.name, found, result.error)
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
        if not self._calls_again():
            self._change(calls=before)

    def _note_sink(self, task: Task, result: TaskResult) -> None:
        self.notes.append(SinkProcessed(task=task.name, status=_status(result)))


def _status(result: TaskResult) -> Status:
    return Status.ERROR if result.error else Status.SUCCESS
