"""A trigger at work on a real source: its turns, its store, and executions that are really begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.control.assembly import assemble
from noetl.control.trigger_turns import TriggerStore, TriggerTurns, execution_id_of
from noetl.events.triggers import DeadLetter, SourceTrigger, TriggerProgress
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.contract import SettlingSource, TriggerBatch, TriggerItem, TriggerPoll
from tests.engine_script import HEAD, net_of
from tests.tools.sql_tasks import context

NET = net_of(HEAD + "workflow: [{step: start, tool: {kind: noop, spec: {place: worker}}}]\n")


class TriggerPlace:
    """One trigger and its server. `fails_to_settle`: the next answers to the source are lost, as in a crash."""

    def __init__(self, source: SettlingSource, inputs: dict[str, Any], **trigger: Any) -> None:
        self.source, self.store, self.clock = source, MemoryStore(), ManualClock(1_000.0)
        self._executions = assemble(self.store, MemoryResults(), MemoryWakeups(), self.clock).executions
        given: dict[str, Any] = {"trigger_id": "t1", "name": "new", "kind": "x", "inputs": inputs, "path": NET.path}
        self.trigger = SourceTrigger(**given, created_at=1.0, created_by="me", **trigger)
        self.triggers = TriggerStore(self.store.key_values)
        self.fails_to_settle = False
        self.started: list[Any] = []

    async def turn(self) -> float:
        return await TriggerTurns(self.store, self, self, self.clock).turn(self.trigger, wait_s=60.0)

    async def check(self, trigger: SourceTrigger) -> None: ...

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        await self._executions.start(NET, execution_id=execution_id, trace_id="t", payload=payload)
        self.started.append(payload["item"]["value"])

    async def poll(self, trigger: SourceTrigger, poll: TriggerPoll) -> TriggerBatch:
        return await self.source.poll(trigger.inputs, poll, context())

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]
    ) -> None:
        if self.fails_to_settle:
            raise ToolError("x.error", "the server died here")
        await self.source.settle(trigger.inputs, accepted, returned, context())

    async def cancel(self, item_id: str) -> None:
        await self._executions.cancel(execution_id_of(self.trigger, item_id), "for the test")

    async def progress(self) -> TriggerProgress:
        return (await self.triggers.progress(self.trigger))[0]

    async def dead_letters(self) -> list[DeadLetter]:
        return await self.triggers.dead_letters(self.trigger)
