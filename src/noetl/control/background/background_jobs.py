"""Everything that moves executions besides their workers. Time, messages, people, and requests of others.

An embedded run keeps it for its own executions; a server for all of the store, with the schedules.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.control.background.lost_work import LostWork
from noetl.control.background.presence import be_present
from noetl.control.executions import Executions
from noetl.control.limits.playbook_concurrency import PlaybookConcurrency
from noetl.control.outside.delivery import MessageDelivery
from noetl.control.outside.human_tasks import HumanTasks
from noetl.control.outside.messages import MessageQueue
from noetl.control.outside.requests import attend
from noetl.control.schedule.timers import TimerQueue
from noetl.store.contract import Store


class BackgroundJobs(msgspec.Struct, frozen=True, kw_only=True):
    executions: Executions
    store: Store
    clock: Clock
    deliveries: MessageDelivery  # messages and signals, to whoever waits for them
    inbox: HumanTasks
    timer_queue: TimerQueue
    message_queue: MessageQueue
    gate: PlaybookConcurrency  # resumes executions that found no room
    lost_work: LostWork  # finds what crashed processes left; for a server

    def own(self, *, shared_as: str | None) -> list[Coroutine[Any, Any, None]]:
        """What runs beside an embedded run. `shared_as`: others may work on the same store, and know it by this
        name."""
        running = [self.timer_queue.serve_own(), self.message_queue.serve(), self.gate.serve_own()]
        if shared_as is not None:
            requests = self.store.requests
            running.append(attend(self.executions, requests, self.clock, message_queue=self.message_queue))
            running.append(be_present(self.store.key_values, shared_as, self.clock))
        return running

    def all(self, *, shared_as: str) -> list[Coroutine[Any, Any, None]]:
        """What runs beside a server. Every one of them may run on several servers at once."""
        from noetl.control.schedule.schedules import Schedules  # an embedded run has no use for calendars

        return [
            self.timer_queue.serve_all(),
            self.message_queue.serve(),
            self.message_queue.serve_all(),
            self.gate.serve_all(),
            self.lost_work.serve(),
            Schedules(self.store, self.executions, self.clock).serve(),
            attend(self.executions, self.store.requests, self.clock, reaches=lambda _: True),
            be_present(self.store.key_values, shared_as, self.clock),
        ]
