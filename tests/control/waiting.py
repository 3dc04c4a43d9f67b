"""A control plane with its background jobs, on a clock that tests move; nothing runs beside unless a test starts it."""

from __future__ import annotations

from typing import Any

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.commit.effects import Listeners
from noetl.control.commit.sharing import OwnExecutions, SharedExecutions
from noetl.events.envelope import Event
from noetl.store.contract import Store
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import net_of

TIMER = """
workflow:
  - step: start
    timer: {id: nap, duration: "{{ workload.naps | default('1h') }}", spec: {cancellable: true}}
    next: {arcs: [{step: woken, when: "{{ event.name == 'timer.fired' }}"}, {step: stopped}]}
  - {step: woken, tool: {kind: noop}}
  - {step: stopped, tool: {kind: noop}}
"""
MESSAGE = """
workload: {order: 7}
workflow:
  - step: start
    message: {name: paid, correlation: {order: "{{ workload.order }}"}}
    next: {arcs: [{step: shipped}]}
  - {step: shipped, tool: {kind: noop}}
"""
SIGNAL = """
workflow:
  - step: start
    signal: {name: stop}
    next: {arcs: [{step: stopped}]}
  - {step: stopped, tool: {kind: noop}}
"""
TASK = """
workflow:
  - step: start
    human_task:
      title: Approve
      assignee: {role: boss}
      form:
        - {field: decision, type: enum, options: [yes_please, no_thanks], required: true}
        - {field: amount, type: integer}
    next: {arcs: [{step: done}]}
  - {step: done, tool: {kind: noop}}
"""


class ControlPlane:
    """`shared`: as a server, which reaches every execution of the store."""

    def __init__(self, store: Store | None = None, clock: ManualClock | None = None, *, shared: bool = False) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or ManualClock()
        self.events: list[Event] = []
        self.assembly = assemble(
            self.store,
            MemoryResults(),
            MemoryWakeups(),
            self.clock,
            sharing=SharedExecutions() if shared else OwnExecutions(),
            listeners=Listeners(watch=self.events.extend),
        )
        self.executions, self.for_workers = self.assembly.executions, self.assembly.for_workers
        self.background_jobs = self.assembly.background_jobs
        self.deliveries, self.inbox = self.background_jobs.deliveries, self.background_jobs.inbox
        self.timer_queue, self.message_queue = self.background_jobs.timer_queue, self.background_jobs.message_queue

    async def start(self, text: str, *ids: str, **payload: Any) -> None:
        net = net_of(text)
        for execution_id in ids or ("x1",):
            await self.executions.start(net, execution_id=execution_id, trace_id=execution_id, payload=payload)
            self.clock.advance(0.001)  # of two waits one is older

    async def status(self, execution_id: str = "x1") -> str:
        row = await self.store.execution(execution_id)
        assert row is not None
        return row.status

    async def types(self, execution_id: str = "x1") -> list[str]:
        return [event.event_type for event in await self.store.events(execution_id)]

    async def ran(self, execution_id: str = "x1") -> list[str | None]:
        events = await self.store.events(execution_id)
        return [event.step for event in events if event.event_type == "step.scheduled"]


LISTENING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gateway, path: tests/gateway}
workflow:
  - step: start
    spec: {eval_mode: on_event, case_mode: exclusive}
    case:
      - when: "{{ event.name == 'parcel.arrived' }}"
        then: [{next: {next: [{step: open_it}]}}]
      - when: "{{ event.name == 'signal.received' and event.data.name == 'stop' }}"
        then: [{next: {next: [{step: abort}]}}]
  - {step: open_it, tool: {kind: noop}}
  - {step: abort, tool: {kind: noop}}
"""
