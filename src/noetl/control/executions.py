"""Load, decide, commit, perform. The engine's shell, where order is the whole point (docs/style.md §2).

A decision takes effect only after it is committed: orders reach a worker, doorbells ring and watchers hear of events
afterwards, never before (SRV-05). How decisions share a commit is the business of `rounds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from noetl.base.clock import Clock
from noetl.base.redaction import Mask
from noetl.control.background.recovery import Recovery
from noetl.control.background.takeover import IsGone, take_over
from noetl.control.claiming.claims import Claims
from noetl.control.claiming.leases import OrderLeases
from noetl.control.claiming.local_worker import LocalWorkers
from noetl.control.claiming.long_polls import Polls
from noetl.control.claiming.pools import Pools
from noetl.control.claiming.ready_orders import Needs
from noetl.control.claiming.turns import Turns
from noetl.control.claiming.worker_abilities import WorkerAbilities
from noetl.control.commit.batch import CommitBatch
from noetl.control.commit.decisions import Control, Decisions, Stored, Watch
from noetl.control.commit.group_commit import GroupCommit
from noetl.control.commit.loaded_executions import LoadedExecution
from noetl.control.commit.quarantine import Quarantine
from noetl.control.commit.sharing import OwnExecutions, SharedExecutions, SharingPolicy
from noetl.control.nested.call_grants import check_call
from noetl.control.nested.calls import Library, NestedCalls, NoLibrary
from noetl.control.nested.starts import Start, Starts
from noetl.control.notifications.notices import NoticeWriter
from noetl.control.results.result_cache import ResultCache
from noetl.control.secrets.execution_secrets import ExecutionSecrets
from noetl.control.secrets.release import Past, SecretRelease
from noetl.engine.commands import CancelExecution, Command
from noetl.engine.decision import Decision
from noetl.engine.execution import Execution
from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES
from noetl.engine.plan import Plan
from noetl.events.calls import PlaybookCall, PlaybookCallResult
from noetl.events.orders import LeaseTerms, Order, ReportResult, Turn, TurnAnswer
from noetl.events.referenced_values import wanted_of
from noetl.events.references import Reference
from noetl.events.rerun_state import RerunState
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net
from noetl.store.contract import ResultStore, Store
from noetl.store.schemas import find_schema
from noetl.store.wakeups.contract import Wakeups

__all__ = ["Control", "Executions", "Stored", "Watch"]

_T = TypeVar("_T")


class Executions:
    """Drives the executions it has started or taken up, with their children, and no others; `shared` with other servers
    on the same store it drives whatever the store has. It is the control plane its worker knows."""

    def __init__(
        self,
        store: Store,
        results: ResultStore,
        dispatch: Wakeups,
        clock: Clock,
        *,
        watch: Watch | None = None,
        secret_release: SecretRelease | None = None,
        library: Library | None = None,
        shared: bool = False,
        terms: LeaseTerms | None = None,
        notices: NoticeWriter | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self.policy: SharingPolicy = SharedExecutions() if shared else OwnExecutions()
        self._secret_release = secret_release or SecretRelease(None)
        self._decisions = Decisions(store, results, dispatch, clock, self.policy, notices)
        self._decisions.terms = terms or self._decisions.terms
        self._loaded = self._decisions.loaded
        self._decisions.watch = watch
        self._secrets = ExecutionSecrets(store, self._secret_release, clock, self._loaded, self.policy)
        self._loaded.followed = watch if self.policy.tells_followed_events else None
        self._group_commit = GroupCommit(self._decisions, self.policy)
        self.pools = Pools(store, clock)
        self._leases = OrderLeases(self._decisions, store, clock)
        self._claims = Claims(self._decisions, self.pools, self._leases, store, clock, self.policy)
        self.recovery = Recovery(self._group_commit, self._decisions, self._claims, clock, self.policy)
        self._turns = Turns(self._group_commit, self._decisions, self._claims, clock, self.policy)
        self._starts = Starts(self._group_commit, self._decisions, clock)
        self.calls = NestedCalls(self, library or NoLibrary())
        self._decisions.left_by = self.calls.left_by
        self._decisions.hand_out = self._claims.hand_out
        self.polls = Polls(self._claims, self._decisions.notify_workers)
        self._group_commit.further = self.polls.end_of_batch_decisions
        self.is_traced = False  # somebody tells what happens as a trace: its tasks say so where they go
        self.gate: Callable[[Start], Awaitable[Start]] | None = None  # says how a start may begin (beyond.md §1)
        self.stored.append(self.calls.note_ended_children)

    # who hears of what

    @property
    def stop(self) -> Callable[[Sequence[str]], None] | None:
        """Hears of orders that nobody wants any more."""
        return self._decisions.stop

    @stop.setter
    def stop(self, hear: Callable[[Sequence[str]], None] | None) -> None:
        self._decisions.stop = hear

    def set_local_workers(self, worker: LocalWorkers) -> None:
        """This worker, in our own process, is given what becomes ready while it waits."""
        self._decisions.local_workers = worker

    def knows_workers(self, able: Callable[[str], WorkerAbilities]) -> None:
        """What a worker can do is told by its id; without this, all of them can do everything."""
        self._claims.able = able

    @property
    def waiting_needs(self) -> dict[tuple[str, Needs], int]:
        """Ready orders that some worker could not run: how many, by their pool and the tool kinds they need."""
        return self._decisions.ready.needed

    @property
    def stored(self) -> list[Stored]:
        """Who hears of every commit once it is stored: alarms, deliveries."""
        return self._decisions.stored

    @property
    def taken_up(self) -> list[Callable[[Execution], None]]:
        """Who hears of executions that were read from the log."""
        return self._decisions.taken_up

    @property
    def values(self) -> ResultCache:
        """Results that are stored apart, for whoever cannot wait in the middle of something."""
        return self._decisions.values

    @property
    def quarantine(self) -> Quarantine:
        return self._decisions.quarantine

    # executions

    async def start(
        self,
        net: Net,
        *,
        execution_id: str,
        trace_id: str,
        payload: dict[str, Any],
        carried: RerunState | None = None,
    ) -> None:
        """Begin an execution; once this returns, it is durable and will be completed. With `carried` it begins at a
        step, with what an earlier run had there."""
        refused = await self._secret_release.refusal(net, payload)
        start = Start(
            net=net, execution_id=execution_id, trace_id=trace_id, payload=payload, refused=refused, carried=carried
        )
        await self.begin(start if self.gate is None else await self.gate(start))

    async def begin(self, start: Start) -> None:
        await self._starts.begin(start)

    async def refusal(self, net: Net, payload: dict[str, Any]) -> Any:
        """Why a request for `net` ends before it begins (KEY-02)."""
        return await self._secret_release.refusal(net, payload)

    async def take_up(self, execution_id: str, *, is_gone: IsGone) -> None:
        """Go on with an execution whose process ended, and with its children. `is_gone` tells whether the owner of a
        lease has certainly ended."""

        async def take_over_execution(batch: CommitBatch) -> None:
            await take_over(self._decisions, self._store, self._clock, execution_id, is_gone)

        await self.decide_and_commit(take_over_execution)

    async def ended_execution(self, execution_id: str) -> Execution:
        """The execution, once it is over."""
        ended = (await self.execution(execution_id)).ended
        ended.waiting += 1
        try:
            await ended.wait()
        finally:
            ended.waiting -= 1
        return (await self.execution(execution_id)).execution

    def release(self, execution_id: str) -> None:
        """Keep an execution that is over in memory no longer."""
        self._loaded.drop(execution_id)

    def drives(self, execution_id: str) -> bool:
        return execution_id in self._loaded

    @property
    def is_holding(self) -> bool:
        """Whether some execution here is paused, or waits for somebody outside, who may have moved it himself."""
        executions = (self._loaded[one].execution for one in self._loaded)
        return any(e.holds or (e.is_open and (e.waits or e.listeners)) for e in executions)

    @property
    def is_contended(self) -> bool:
        """Whether somebody else has moved an execution of ours: its end may come from there."""
        return self._decisions.is_contended

    async def is_known(self, execution_id: str) -> bool:
        """Whether the store has this execution."""
        return await self._store.execution(execution_id) is not None

    def open_children(self) -> list[str]:
        """The nested executions that are still running here."""
        return [one for one in self._loaded if (e := self._loaded[one].execution).is_open and e.parent_execution_id]

    async def execution(self, execution_id: str) -> LoadedExecution:
        """An execution with its plan, as of now; ahead of the log by the commit that is under way."""
        if self.policy.is_memory_current and execution_id in self._loaded and not self._loaded.is_stale(execution_id):
            return self._loaded[execution_id]

        async def loaded(batch: CommitBatch) -> LoadedExecution:
            return await self._decisions.load(execution_id)

        return await self.decide_and_commit(loaded)

    # commands

    async def decide_and_commit(self, decide: Callable[[CommitBatch], Awaitable[_T]]) -> _T:
        """Decide something and store all of it in one transaction, together with whatever else is wanted then."""
        return await self._group_commit.decide_and_commit(decide)

    async def control(self, execution_id: str, command: Control) -> ReportResult:
        """Pause, resume or cancel an execution and its children, in one transaction."""
        return (await self.submit_command(execution_id, command)).verdict

    async def cancel(self, execution_id: str, reason: str) -> ReportResult:
        return await self.control(execution_id, CancelExecution(at=self._clock.now(), reason=reason))

    async def submit_command(self, execution_id: str, command: Command) -> Decision:
        """Have one command decided and stored; what it led to."""
        [decision] = await self.tell_all([(execution_id, command)])
        return decision

    async def tell_all(self, commands: Sequence[tuple[str, Command]]) -> list[Decision]:
        """Have commands decided in their order, and stored in one transaction: all of them or none."""

        async def decided(batch: CommitBatch) -> list[Decision]:
            for execution_id, command in commands:
                await self._decisions.load(execution_id)
                if isinstance(command, Control):
                    await self._decisions.load_children(execution_id)
            return [self._decisions.decide(batch, execution_id, command) for execution_id, command in commands]

        return await self.decide_and_commit(decided)

    # what a worker asks

    async def turn(self, turn: Turn) -> TurnAnswer:
        answer = await self._turns.take(await self._secrets.masked_turn(turn))
        if not (self.is_traced and answer.orders):
            return answer
        traced = tuple(msgspec.structs.replace(order, traced=True) for order in answer.orders)
        return msgspec.structs.replace(answer, orders=traced)

    async def call(self, call: PlaybookCall) -> PlaybookCallResult:
        await self._secrets.check_call(call)
        return await self.calls.call(call)

    async def check_call(self, call: PlaybookCall) -> None:
        """CallRefusedError for a playbook that the task of the held order does not call."""
        hot = await self.execution(call.execution_id)
        await check_call(call, hot.plan, hot.execution, self._store, self.values)

    async def give_up(self, call: PlaybookCall, reason: str) -> None:
        await self.calls.give_up(call, reason)

    async def abandon(self, call: PlaybookCall, reason: str) -> None:
        """The same for a worker elsewhere. CallRefusedError where it does not hold the order."""
        await self.calls.abandon(call, reason)

    async def resumed(self, execution_id: str) -> None:
        while (await self.execution(execution_id)).execution.holds:
            await self._decisions.resumptions.setdefault(execution_id, asyncio.Event()).wait()

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        lost = await self._leases.renew(worker_id, leases, ttls or {})
        if lost and self.policy.follows_after_lost_lease:
            await self.catch_up()
        return lost

    async def give_back(self, worker_id: str) -> None:
        """A worker has gone, and says so: what it held is taken up by others at once."""
        if await self._leases.give_back(worker_id):
            await self.recovery.seek()

    async def net(self, net_hash: str) -> Net:
        return (await self.plan(net_hash)).net

    async def plan(self, net_hash: str) -> Plan:
        return await self._loaded.plans.get(net_hash)

    async def secret(self, ask: Ask) -> Material:
        hot = await self.execution(ask.execution_id)
        past = Past(self._store, self.values.read)
        entry, material = await self._secret_release.answer(ask, hot.plan, hot.execution, past)
        await self._secrets.record(ask.execution_id, entry, material)  # before anybody can send it back
        return material

    async def mask(self, execution_id: str) -> Mask:
        """The secrets that the execution, its parents and its children have read, on whichever server and worker."""
        return await self._secrets.mask(execution_id)

    async def schema(self, named: str) -> Any:
        found = await find_schema(self._store.key_values, named)
        return found.schema if found is not None else None

    def keep(self, value: Any, execution_id: str = "") -> Reference:
        """A worker in this process has masked it: it shares the mask of the execution."""
        return self.values.send_soon(value)

    def load(self, reference: Reference) -> Any:
        return self.values.load_now(reference)

    async def prepare(self, order: Order) -> None:
        """Have at hand what an order refers to, all of it: who reads it later would hold up everybody here."""
        await self.values.fetch(wanted_of(order, largest_bytes=MAX_RESULT_BYTES))

    async def catch_up(self) -> None:
        await self.recovery.catch_up()

    async def close(self) -> None:
        """Return once nothing is under way."""
        await self._group_commit.wait_idle()
        self._decisions.expected.close()
        self.values.close()
