"""A conversation about waiting: time that a test moves, and people and systems outside that a test plays."""

from __future__ import annotations

from typing import Any

from noetl.engine.commands import (
    ActOnTask,
    CancelTimer,
    Command,
    DeliverMessage,
    DeliverSignal,
    InjectEvent,
    TaskAction,
    Wake,
)
from noetl.engine.decision import ChangeTask, CloseWait, Decision, OpenWait
from noetl.engine.evolve import evolve
from noetl.engine.execution import Execution
from noetl.engine.waits.state import OpenHumanTask, Wait, WaitKind
from noetl.events.envelope import Event
from tests.case_worker_script import case_entries
from tests.engine_script import Conversation
from tests.fixtures.logs import stored


class Waiting(Conversation):
    """`open_waits` and `tasks` are maintained from the effects, as a store does."""

    def __init__(self, text: Any, **options: Any) -> None:
        super().__init__(text, **options)
        self.open_waits: dict[str, OpenWait] = {}
        self.tasks: dict[str, OpenHumanTask] = {}
        self._shadow = Execution(execution_id="x1", trace_id="t1")

    def decide(self, command: Command) -> Decision:
        decision = super().decide(command)
        for event in decision.events:  # as a store gives them back
            evolve(self._shadow, stored(event))
        assert self._shadow == self.execution
        for effect in decision.effects:
            match effect:
                case OpenWait():
                    self.open_waits[effect.wait_id] = effect
                case CloseWait():
                    del self.open_waits[effect.wait_id]
                case ChangeTask():
                    self.tasks[effect.task.task_id] = effect.task
        awaited = {one.wait_id for one in self.execution.open_waits.waits.values() if one.kind in ("message", "signal")}
        assert set(self.open_waits) == awaited
        assert self.tasks == self.execution.open_waits.human_tasks, "the work list and the state agree"
        return decision

    def wake(self, after: float = 0.0) -> list[Event]:
        """Time passes, and everything due by then fires."""
        self.clock.advance(after)
        return self.tell(Wake(at=self.clock.now()))

    def sleep(self) -> float:
        """Until the next moment at which time alone moves the execution; gives how long that was."""
        moment = self.execution.wake_at
        assert moment is not None, "nothing is due"
        passed = moment - self.clock.now()
        self.wake(max(passed, 0.0))
        return passed

    def wait(self, kind: WaitKind, step: str | None = None) -> Wait:
        [found] = [
            one
            for one in self.execution.open_waits.waits.values()
            if one.kind is kind and step in (None, self.execution.runs[one.step_run_id].step)
        ]
        return found

    def message(self, name: str, payload: Any = None, *, message_id: str = "m1", **correlation: Any) -> Decision:
        """To the one wait for messages there is."""
        return self.decide(
            DeliverMessage(
                at=self.clock.now(),
                wait_id=self.wait(WaitKind.MESSAGE).wait_id,
                message_id=message_id,
                name=name,
                correlation=correlation,
                payload=payload,
            )
        )

    def signal(self, name: str, data: Any = None, *, signal_id: str = "s1") -> Decision:
        return self.decide(DeliverSignal(at=self.clock.now(), signal_id=signal_id, name=name, data=data))

    def inject(self, name: str, data: Any = None, *, key: str | None = None) -> Decision:
        return self.decide(InjectEvent(at=self.clock.now(), name=name, data=data, event_key=key))

    def cancel_timer(self, timer_id: str) -> Decision:
        return self.decide(CancelTimer(at=self.clock.now(), timer_id=timer_id, actor="ann"))

    @property
    def task_id(self) -> str:
        [task] = [one for one in self.tasks.values() if one.is_open]
        return task.task_id

    def act(
        self, action: str, actor: str = "ann", *, task_id: str | None = None, version: int | None = None, **about: Any
    ) -> Decision:
        return self.decide(
            ActOnTask(
                at=self.clock.now(),
                task_id=task_id or self.task_id,
                action=TaskAction(action),
                actor=actor,
                version=version,
                **about,
            )
        )

    def work(self, step: str, result: Any = None) -> None:
        """A worker takes the case run of a step as far as it goes."""
        self.claim(step)
        self.report(self.report_of(step, *case_entries(self, step, result)))

    def event_names(self, *prefixes: str) -> list[str]:
        """The names of the events so far that begin so."""
        return [name for name in self.types() if name.startswith(prefixes)]
