"""Waits with random input in any order: views agree with the state, and no wait is left behind.

`Waiting` checks after every command that the log gives the state again, and that open waits and tasks agree.
"""

from __future__ import annotations

import random

import pytest

from noetl.engine.waits.state import WaitKind
from tests.case_worker_script import case_entries
from tests.engine.waiting import Waiting
from tests.volume import one_in

PLAIN = """
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs: [{step: all, spec: {tokens: 2}}, {step: slow, spec: {delay: 7}}, {step: work}, {step: asked}]
  - step: all
    message: {name: m, timeout: 20, spec: {timeout_action: ignore}}
    timer: {id: t, duration: 50, spec: {cancellable: true}}
    signal: {name: s}
    timeout: {duration: 30, spec: {on_timeout: alternative}, alternative_step: late}
    next: {arcs: [{step: meet}]}
  - {step: late, spec: {rate: {limit: 1, per: 5}}, next: {arcs: [{step: meet, spec: {delay: 3}}]}}
  - {step: slow, message: {name: n, timeout: 40, spec: {timeout_action: fail}}, next: {arcs: [{step: meet}]}}
  - step: work
    tool: {kind: python, code: x}
    timeout: {duration: 25}
    next: {arcs: [{step: meet}, {step: meet, when: "{{ event.name == 'step.failed' }}"}]}
  - step: asked
    human_task: {title: t, assignee: {role: r}, due_date: 10, escalation: {after: 20, to_user: boss}}
    spec: {policy: {lifecycle: {timeout_s: 60}}}
    next: {arcs: [{step: meet}, {step: meet, when: "{{ event.name == 'step.failed' }}"}]}
  - {step: meet, spec: {join: all}}
"""
CASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: case, path: tests/case, dialect: v2-case}
workflow:
  - {step: start, next: [ears, waits, work]}
  - step: ears
    spec: {eval_mode: on_event, timeout: 90}
    timer: {id: t, duration: 40, spec: {cancellable: true}}
    human_task: {title: t, assignee: {role: r}, due_date: 10}
    case:
      - {when: "{{ event.name == 'human.overdue' }}", then: [{remind: {tool: {kind: python, code: x}}}]}
      - {when: "{{ event.name == 'a.b' }}", then: [{more: {tool: {kind: python, code: x}}}]}
      - {when: "{{ event.name == 'signal.received' }}", then: {next: end}}
  - step: waits
    message: {name: m, timeout: 30}
    case: [{when: "{{ event.name == 'message.received' }}", then: [{next: {spec: {delay: 5}, next: [{step: end}]}}]}]
    next: end
  - {step: work, tool: {kind: python, code: x}, next: end}
"""


class Play:
    """Somebody who does anything at any time."""

    def __init__(self, text: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.talk = Waiting(text)
        self.count = 0

    def turn(self) -> None:
        moves = [self.wake, self.message, self.signal, self.inject, self.cancel_timer, self.act, self.work, self.hold]
        self.dice.choice(moves)()

    def fresh(self) -> str:
        self.count += 1
        return str(self.count)

    def wake(self) -> None:
        self.talk.wake(self.dice.choice([0, 1, 3, 10]))

    def message(self) -> None:
        waits = [one for one in self.talk.execution.open_waits.waits.values() if one.kind is WaitKind.MESSAGE]
        if len(waits) == 1:
            self.talk.message(waits[0].name, {"n": 1}, message_id=self.fresh())

    def signal(self) -> None:
        self.talk.signal(self.dice.choice(["s", "x"]), signal_id=self.fresh())

    def inject(self) -> None:
        self.talk.inject("a.b", key=self.fresh())

    def cancel_timer(self) -> None:
        if self.dice.random() < 0.2:
            self.talk.cancel_timer("t")

    def act(self) -> None:
        if self.talk.tasks:
            task_id = self.dice.choice(list(self.talk.tasks))
            self.talk.act(self.dice.choice(["claim", "release", "complete"]), task_id=task_id, roles=("r",))

    def hold(self) -> None:
        self.talk.resume() if self.talk.execution.lifecycle.paused else self.talk.pause()

    def work(self) -> None:
        for name in self.talk.running():
            run = self.talk.run(name)
            if run.lease.order_id is None:
                continue
            if run.lease.lease_epoch == 0:
                self.talk.claim(name)
            elif self.talk.plan.step(run.step).case is not None:
                self.talk.report(self.talk.report_of(name, *case_entries(self.talk, name, 1)))
            else:
                self.talk.done(name, 1)
            return


@pytest.mark.req("EVT-07", "TMR-02", "TMR-06", "O-16")
@pytest.mark.parametrize("text", [PLAIN, CASE], ids=["plain", "case"])
@pytest.mark.parametrize("seed", one_in(2, range(40)))
def test_every_random_execution_ends_and_leaves_nothing_open(text: str, seed: int) -> None:
    play = Play(text, seed)
    talk = play.talk
    talk.start()

    for _ in range(150):
        if talk.status != "running":
            break
        play.turn()
    if talk.execution.lifecycle.paused:
        talk.resume()
    for _ in range(60):
        play.work()
        talk.wake(10)

    execution = talk.execution
    assert talk.status != "running", (talk.running(), execution.open_waits.waits)
    assert (
        execution.open_waits.waits,
        execution.held.delayed,
        execution.open_waits.due_times.due,
        talk.open_waits,
    ) == ({}, {}, {}, {})
    assert not any(task.is_open for task in execution.open_waits.human_tasks.values())
    assert (execution.runs, execution.tokens, execution.order_states.open) == ({}, {}, {})
