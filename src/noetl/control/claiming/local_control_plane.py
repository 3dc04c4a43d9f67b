"""Local control plane: what workers ask for: turns, leases, secrets, nested playbooks, stored values (WRK-01).

It is the `ControlPlane` of a worker in the same process. For remote workers the routes under `/api/orders` call the
same methods.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import RefusedError
from noetl.base.redaction import Mask
from noetl.control.background.recovery import Recovery
from noetl.control.claiming.claims import OrderLeases
from noetl.control.claiming.turns import Polls, Turns
from noetl.control.commit.effects import Effects
from noetl.control.executions import Executions
from noetl.control.nested.call_grants import check_call
from noetl.control.nested.calls import NestedCalls
from noetl.control.secrets.execution_secrets import ExecutionSecrets
from noetl.control.secrets.release import Past, SecretRelease
from noetl.control.views.live_output import LiveOutput, LiveTaskRun
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES
from noetl.events.large_values import wanted_of
from noetl.events.orders import Order, OutputBatch, OutputChunk, PlaybookCall, PlaybookCallResult, Turn, TurnAnswer
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net
from noetl.store.contract import Store
from noetl.store.installation import find_schema


class LocalControlPlane:
    """`is_traced`: this server exports traces, and marks its orders so that workers send trace data."""

    def __init__(
        self,
        store: Store,
        executions: Executions,
        effects: Effects,
        *,
        turns: Turns,
        polls: Polls,
        leases: OrderLeases,
        recovery: Recovery,
        calls: NestedCalls,
        secret_release: SecretRelease,
        secrets: ExecutionSecrets,
        is_traced: bool = False,
        live_output: LiveOutput | None = None,
    ) -> None:
        self._store, self._executions, self._effects, self._is_traced = store, executions, effects, is_traced
        self._turns, self._leases, self._recovery, self._calls = turns, leases, recovery, calls
        self._secret_release, self._secrets = secret_release, secrets
        self.polls, self._live_output = polls, live_output

    # orders

    async def turn(self, turn: Turn) -> TurnAnswer:
        # Masked before the decision: an event cannot be changed afterwards.
        answer = await self._turns.take(await self._secrets.masked_turn(turn))
        if not (self._is_traced and answer.orders):
            return answer
        traced = tuple(msgspec.structs.replace(order, traced=True) for order in answer.orders)
        return msgspec.structs.replace(answer, orders=traced)

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        lost = await self._leases.renew(worker_id, leases, ttls or {})
        if lost and self._executions.policy.follows_after_lost_lease:
            await self._executions.catch_up()
        return lost

    async def give_back(self, worker_id: str) -> None:
        """A worker shuts down: its orders become claimable at once."""
        if await self._leases.give_back(worker_id):
            await self._recovery.seek()

    async def resumed(self, execution_id: str) -> None:
        """Wait until a paused execution goes on."""
        # Checked again after every wake-up: it may have been paused a second time.
        while (await self._executions.execution(execution_id)).execution.holds:
            await self._effects.resumption(execution_id).wait()

    async def show_output(self, batch: OutputBatch) -> None:
        """Keep lines that tasks print, for the live view. Lines of orders that the worker does not hold are dropped."""
        output = self._live_output
        if output is None:
            return
        masks: dict[str, Mask] = {}
        for chunk in batch.chunks:
            run = output.run(chunk, batch.worker_id) or await self._live_run(output, chunk, batch.worker_id)
            if run is None:
                continue
            # Asked for each batch: another server may have released a secret since the first lines of the task.
            if (execution_id := run.of.execution_id) not in masks:
                masks[execution_id] = await self._secrets.mask(execution_id)
            # The task may have ended meanwhile.
            if output.run(chunk, batch.worker_id) is run:
                output.add(run, chunk, masks[execution_id])

    async def _live_run(self, output: LiveOutput, chunk: OutputChunk, worker_id: str) -> LiveTaskRun | None:
        try:
            execution = (await self._executions.execution(chunk.execution_id)).execution
        except RefusedError:  # there is no such execution
            return None
        run, lease = execution.run_of(chunk.order_id), execution.lease_of(chunk.order_id)
        holder = (lease.lease_epoch, lease.worker_id) if lease is not None else None
        # The same fence as for reports: a worker that lost its lease must not write into the output of its successor.
        if run is None or holder != (chunk.lease_epoch, worker_id):
            return None
        return output.begin(chunk, run.step, worker_id, await self._secrets.mask(chunk.execution_id))

    # nested playbooks

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        await self._secrets.check_call(call)
        return await self._calls.call(call)

    async def check_call(self, call: PlaybookCall) -> None:
        """CallRefusedError for a playbook that the task of the order does not call."""
        loaded = await self._executions.execution(call.execution_id)
        await check_call(call, loaded.plan, loaded.execution, self._store, self._executions.values)

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        await self._calls.give_up(call, reason)

    async def abandon(self, call: PlaybookCall, reason: str) -> None:
        """The same for a remote worker. CallRefusedError when it does not hold the order."""
        await self._calls.abandon(call, reason)

    # data that a task reads

    async def net(self, net_hash: str) -> Net:
        return await self._executions.net(net_hash)

    async def secret(self, ask: Ask) -> Material:
        loaded = await self._executions.execution(ask.execution_id)
        past = Past(self._store, self._executions.values.read)
        entry, material = await self._secret_release.answer(ask, loaded.plan, loaded.execution, past)
        # Recorded before the worker has it: a report that contains it can then always be masked.
        await self._secrets.record(ask.execution_id, entry, material)
        return material

    async def mask(self, execution_id: str) -> Mask:
        """The mask of all secrets that the execution, its parents and its children have read, on any server."""
        return await self._secrets.mask(execution_id)

    async def schema(self, named: str) -> Any:
        found = await find_schema(self._store.key_values, named)
        return found.schema if found is not None else None

    def keep(self, value: Any, execution_id: str) -> Reference:
        """Store a large value. It is masked already: a worker in this process shares the mask of the execution."""
        return self._executions.values.send_soon(value)

    def load(self, reference: Reference) -> Any:
        return self._executions.values.load_now(reference)

    async def keep_table(self, file: Path, execution_id: str) -> Reference:
        return await self._executions.values.store_table(file)

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._executions.values.fetch_table(reference, into)

    async def prepare(self, order: Order) -> None:
        """Fetch all results that an order refers to. Tasks load them synchronously, which would block the event loop
        if they had to be fetched then."""
        await self._executions.values.fetch(wanted_of(order, largest_bytes=MAX_RESULT_BYTES))
