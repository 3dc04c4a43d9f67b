"""Assembly: builds the objects of a control plane, for embedded runs, servers and tests. Also its background jobs.

Every object is complete after its constructor, and nothing is assigned to it from outside afterwards. Where two objects
need each other, both get a third, small one: timers, open waits, limited executions and awaited children note what a
commit brings, and the objects that act on them are built later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from noetl.base.clock import Clock
from noetl.control.background.lost_work import FollowedExecutions, LostOrders, LostWork, OrphanedCalls
from noetl.control.background.presence import announce_presence
from noetl.control.background.recovery import Recovery
from noetl.control.claiming.claims import Claims, OrderLeases, WaitingForResults
from noetl.control.claiming.local_control_plane import LocalControlPlane
from noetl.control.claiming.orders import WorkerAbilities
from noetl.control.claiming.pools import Pools
from noetl.control.claiming.ready_orders import LocalWorker, ReadyOrders
from noetl.control.claiming.turns import Polls, Turns
from noetl.control.commit.decisions import AwaitedChildren, Decisions
from noetl.control.commit.effects import Effects, Listeners
from noetl.control.commit.group_commit import GroupCommit
from noetl.control.commit.loaded_executions import LoadedExecutions
from noetl.control.commit.quarantine import Quarantine
from noetl.control.commit.result_cache import ResultCache
from noetl.control.commit.sharing import OwnExecutions, SharingPolicy
from noetl.control.executions import Executions
from noetl.control.nested.calls import Library, NestedCalls, NoLibrary
from noetl.control.notifications.notices import NoticeWriter
from noetl.control.outside.delivery import MessageDelivery
from noetl.control.outside.human_tasks import HumanTasks
from noetl.control.outside.messages import MessageQueue, OpenWaits
from noetl.control.outside.requests import serve_requests
from noetl.control.playbook_limits import LimitedExecutions, PlaybookConcurrency
from noetl.control.secrets.execution_secrets import ExecutionSecrets
from noetl.control.secrets.release import SecretRelease
from noetl.control.timers import Sleep, TimerQueue, Timers
from noetl.control.views.live_output import LiveOutput
from noetl.events.orders import LeaseTerms
from noetl.store.contract import ResultStore, Store
from noetl.store.wakeups import Wakeups


class Assembly(NamedTuple):
    """A control plane."""

    executions: Executions  # what people and programs ask for
    for_workers: LocalControlPlane  # what workers ask for
    background_jobs: BackgroundJobs  # timers, messages, requests of other processes; the caller starts them
    decisions: Decisions  # executions in memory and ready orders, for views and tests
    commit: GroupCommit
    calls: NestedCalls  # child executions
    pools: Pools
    waiting_for_results: WaitingForResults

    async def close(self) -> None:
        """Return once nothing is under way."""
        self.waiting_for_results.close()
        await self.executions.close()


class _CommitListeners(NamedTuple):
    """Listeners of commits that other objects read. Those objects need the group commit, so they are built later."""

    timers: Timers
    waits: OpenWaits
    limited: LimitedExecutions
    awaited: AwaitedChildren

    def ahead_of(self, others: Listeners) -> Listeners:
        """All listeners, those of the control plane first: `others` may look at what these have noted."""
        own = (self.awaited.stored, self.timers.stored, self.limited.stored, self.waits.stored)
        taken_up = (self.timers.taken_up, self.waits.taken_up)
        return msgspec.structs.replace(others, stored=(*own, *others.stored), taken_up=(*taken_up, *others.taken_up))


class _Foundation(NamedTuple):
    """The first three constructor arguments of nearly every object."""

    store: Store
    clock: Clock
    policy: SharingPolicy


class _Claiming(NamedTuple):
    """The objects that give orders to workers."""

    pools: Pools
    leases: OrderLeases
    waiting_for_results: WaitingForResults
    claims: Claims
    polls: Polls


def assemble(
    store: Store,
    results: ResultStore,
    wakeups: Wakeups,
    clock: Clock,
    *,
    sharing: SharingPolicy | None = None,
    listeners: Listeners | None = None,
    secret_release: SecretRelease | None = None,
    library: Library | None = None,
    terms: LeaseTerms | None = None,
    ability_of: Callable[[str], WorkerAbilities] | None = None,
    local_worker: LocalWorker | None = None,
    notices: NoticeWriter | None = None,
    live_output: LiveOutput | None = None,
    is_traced: bool = False,
    sleep: Sleep = asyncio.sleep,
) -> Assembly:
    """A control plane over an open store.

    `sharing` says whether other servers decide upon the same executions; by default, none does. `ability_of` returns
    the tool kinds and labels of a worker. `local_worker` receives orders in the commit that makes them ready.
    """
    foundation = _Foundation(store, clock, sharing or OwnExecutions())
    waits = OpenWaits(remembers=not foundation.policy.reaches_all)
    own_listeners = _CommitListeners(Timers(), waits, LimitedExecutions(), AwaitedChildren())
    listeners, secret_release = own_listeners.ahead_of(listeners or Listeners()), secret_release or SecretRelease(None)
    decisions = _decisions(foundation, results, wakeups, listeners, own_listeners.awaited, terms, notices)
    claiming = _claiming(foundation, decisions, ability_of, local_worker)
    # The group commit claims orders for waiting workers, so the objects of claiming are built first.
    commit = GroupCommit(decisions, decisions.effects, claiming.polls, foundation.policy)
    recovery = Recovery(commit, decisions, claiming.claims, clock)

    # None: every server reaches every execution.
    reaches = None if foundation.policy.reaches_all else decisions.loaded.__contains__
    gate = PlaybookConcurrency(commit, own_listeners.limited, store, clock, reaches=reaches)
    executions = Executions(
        *foundation, commit=commit, decisions=decisions, admission=gate, secret_release=secret_release
    )
    calls = NestedCalls(executions, recovery, secret_release, own_listeners.awaited, library or NoLibrary())
    for_workers = LocalControlPlane(
        store,
        executions,
        decisions.effects,
        turns=Turns(commit, decisions, claiming.claims, clock, foundation.policy),
        polls=claiming.polls,
        leases=claiming.leases,
        recovery=recovery,
        calls=calls,
        secret_release=secret_release,
        secrets=ExecutionSecrets(store, secret_release, clock, decisions.loaded, foundation.policy),
        is_traced=is_traced,
        live_output=live_output,
    )
    jobs = (LostOrders(recovery), FollowedExecutions(executions), OrphanedCalls(calls))
    lost_work = LostWork(jobs, decisions.quarantine, store.key_values, clock)
    background_jobs = _background(foundation, own_listeners, executions, gate, lost_work, reaches, sleep)
    return Assembly(
        executions, for_workers, background_jobs, decisions, commit, calls, claiming.pools, claiming.waiting_for_results
    )


def _decisions(
    foundation: _Foundation,
    results: ResultStore,
    wakeups: Wakeups,
    listeners: Listeners,
    awaited: AwaitedChildren,
    terms: LeaseTerms | None,
    notices: NoticeWriter | None,
) -> Decisions:
    """The executions in memory, with the effects of each commit."""
    values, ready = ResultCache(results, foundation.policy.near_bytes), ReadyOrders()
    loaded = LoadedExecutions(foundation.store, values, foundation.policy, listeners.watch)
    return Decisions(
        *foundation,
        loaded=loaded,
        values=values,
        ready=ready,
        effects=Effects(loaded, ready, wakeups, foundation.policy, listeners),
        quarantine=Quarantine(foundation.clock),
        awaited=awaited,
        terms=terms or LeaseTerms(),
        notices=notices,
    )


def _claiming(
    foundation: _Foundation,
    decisions: Decisions,
    ability_of: Callable[[str], WorkerAbilities] | None,
    local_worker: LocalWorker | None,
) -> _Claiming:
    pools, leases = (
        Pools(foundation.store, foundation.clock),
        OrderLeases(decisions, foundation.store, foundation.clock),
    )
    waiting_for_results = WaitingForResults(decisions.effects.offer_again)
    claims = Claims(
        decisions,
        *foundation,
        pools=pools,
        leases=leases,
        waiting_for_results=waiting_for_results,
        ability_of=ability_of,
    )
    polls = Polls(claims, decisions.ready, decisions.effects, local_worker)
    return _Claiming(pools, leases, waiting_for_results, claims, polls)


def _background(
    foundation: _Foundation,
    own_listeners: _CommitListeners,
    executions: Executions,
    gate: PlaybookConcurrency,
    lost_work: LostWork,
    reaches: Callable[[str], bool] | None,
    sleep: Sleep,
) -> BackgroundJobs:
    store, clock = foundation.store, foundation.clock
    deliveries = MessageDelivery(executions, store, clock, reaches=reaches)
    return BackgroundJobs(
        executions=executions,
        store=store,
        clock=clock,
        deliveries=deliveries,
        inbox=HumanTasks(executions, store, clock),
        timer_queue=TimerQueue(executions, own_listeners.timers, store, clock, sleep=sleep),
        message_queue=MessageQueue(deliveries, own_listeners.waits, store, clock),
        gate=gate,
        lost_work=lost_work,
    )


class BackgroundJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that moves executions apart from workers: timers, messages, people, requests of other processes.
    An embedded run serves its own executions, a server all executions of the store, and schedules."""

    executions: Executions
    store: Store
    clock: Clock
    deliveries: MessageDelivery  # of messages and signals, to the executions that wait for them
    inbox: HumanTasks
    timer_queue: TimerQueue
    message_queue: MessageQueue
    gate: PlaybookConcurrency  # resumes executions that wait for room under their playbook's limit
    lost_work: LostWork  # finds the work of crashed processes; for a server

    def own(self, *, shared_as: str | None) -> list[Coroutine[Any, Any, None]]:
        """The jobs of an embedded run. `shared_as` is the name of this process on a store that others use too."""
        running = [self.timer_queue.serve_own(), self.message_queue.serve(), self.gate.serve_own()]
        if shared_as is not None:
            requests = self.store.requests
            running.append(serve_requests(self.executions, requests, self.clock, message_queue=self.message_queue))
            running.append(announce_presence(self.store.key_values, shared_as, self.clock))
        return running

    def all(self, *, shared_as: str) -> list[Coroutine[Any, Any, None]]:
        """The jobs of a server. Each of them may run on several servers at once."""
        # Imported here: an embedded run has no schedules, and the calendar code would delay its start.
        from noetl.control.schedules import Schedules

        return [
            self.timer_queue.serve_all(),
            self.message_queue.serve(),
            self.message_queue.serve_all(),
            self.gate.serve_all(),
            self.lost_work.serve(),
            Schedules(self.store, self.executions, self.clock).serve(),
            serve_requests(self.executions, self.store.requests, self.clock, reaches=lambda _: True),
            announce_presence(self.store.key_values, shared_as, self.clock),
        ]
