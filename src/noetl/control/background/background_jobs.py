"""Everything that moves executions besides their workers. Time, messages, people, and requests of others.

An embedded run keeps it for its own executions; a server for all of the store, with the schedules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from noetl.base.clock import Clock
from noetl.control.background.presence import be_present
from noetl.control.executions import Executions
from noetl.control.limits.playbook_concurrency import PlaybookConcurrency
from noetl.control.outside.delivery import MessageDelivery
from noetl.control.outside.human_tasks import HumanTasks
from noetl.control.outside.messages import MessageQueue
from noetl.control.outside.requests import attend
from noetl.control.schedule.timers import Sleep, TimerQueue
from noetl.store.contract import Store


class BackgroundJobs:
    def __init__(
        self,
        executions: Executions,
        store: Store,
        clock: Clock,
        *,
        everywhere: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._executions, self._store, self._clock = executions, store, clock
        reaches = None if everywhere else executions.drives
        self.deliveries = MessageDelivery(executions, store, clock, reaches=reaches)
        self.inbox = HumanTasks(executions, store, clock)
        self.timer_queue = TimerQueue(executions, store, clock, sleep=sleep)
        self.gate = PlaybookConcurrency(executions, store, clock, reaches=reaches)
        self.message_queue = MessageQueue(self.deliveries, executions, store, clock, remembers=not everywhere)

    def own(self, *, shared_as: str | None) -> list[Coroutine[Any, Any, None]]:
        """What runs beside an embedded run. `shared_as`: others may work on the same store, and know it by this
        name."""
        running = [self.timer_queue.serve_own(), self.message_queue.serve(), self.gate.serve_own()]
        if shared_as is not None:
            requests = self._store.requests
            running.append(attend(self._executions, requests, self._clock, message_queue=self.message_queue))
            running.append(be_present(self._store.key_values, shared_as, self._clock))
        return running

    def all(self, *, shared_as: str) -> list[Coroutine[Any, Any, None]]:
        """What runs beside a server. Every one of them may run on several servers at once."""
        from noetl.control.schedule.schedules import Schedules  # an embedded run has no use for calendars

        return [
            self.timer_queue.serve_all(),
            self.message_queue.serve(),
            self.message_queue.serve_all(),
            self.gate.serve_all(),
            Schedules(self._store, self._executions, self._clock).serve(),
            attend(self._executions, self._store.requests, self._clock, reaches=lambda _: True),
            be_present(self._store.key_values, shared_as, self._clock),
        ]
