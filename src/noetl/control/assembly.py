"""Assembly: builds the objects of a control plane, for embedded runs, servers and tests.

Every object is complete after its constructor, and nothing is assigned to it from outside afterwards. What looks like
a circle is broken by a small object that both sides are given: the timers, waits and limited executions that hear of
commits before there is anybody who acts on them, the children that step runs wait for, the slots of the worker in the
same process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from noetl.base.clock import Clock
from noetl.control.background.background_jobs import BackgroundJobs
from noetl.control.background.lost_work import Followed, LostOrders, LostWork, OrphanedCalls
from noetl.control.background.recovery import Recovery
from noetl.control.claiming.claims import Claims, WaitingForResults
from noetl.control.claiming.leases import OrderLeases
from noetl.control.claiming.local_control_plane import LocalControlPlane
from noetl.control.claiming.long_polls import Polls
from noetl.control.claiming.order_needs import WorkerAbilities
from noetl.control.claiming.pools import Pools
from noetl.control.claiming.ready_orders import LocalWorker, ReadyOrders
from noetl.control.claiming.turns import Turns
from noetl.control.commit.decisions import Decisions
from noetl.control.commit.effects import Effects, Listeners
from noetl.control.commit.group_commit import GroupCommit
from noetl.control.commit.loaded_executions import LoadedExecutions
from noetl.control.commit.quarantine import Quarantine
from noetl.control.commit.sharing import OwnExecutions, SharingPolicy
from noetl.control.executions import Executions
from noetl.control.limits.playbook_concurrency import LimitedExecutions, PlaybookConcurrency
from noetl.control.nested.awaited_children import AwaitedChildren
from noetl.control.nested.calls import Library, NestedCalls, NoLibrary
from noetl.control.notifications.notices import NoticeWriter
from noetl.control.outside.delivery import MessageDelivery
from noetl.control.outside.human_tasks import HumanTasks
from noetl.control.outside.messages import MessageQueue, OpenWaits
from noetl.control.results.result_cache import ResultCache
from noetl.control.schedule.timers import Sleep, TimerQueue, Timers
from noetl.control.secrets.execution_secrets import ExecutionSecrets
from noetl.control.secrets.release import SecretRelease
from noetl.control.views.live_output import LiveOutput
from noetl.events.orders import LeaseTerms
from noetl.store.contract import ResultStore, Store
from noetl.store.wakeups.contract import Wakeups


class Assembly(NamedTuple):
    """A control plane."""

    executions: Executions  # what people and programs ask for
    for_workers: LocalControlPlane  # what workers ask for
    background_jobs: BackgroundJobs  # what time, messages and other processes bring; nothing runs before it is told to
    decisions: Decisions  # executions in memory and ready orders, for views and tests
    commit: GroupCommit
    calls: NestedCalls  # child executions
    pools: Pools
    expected: WaitingForResults

    async def close(self) -> None:
        """Return once nothing is under way."""
        self.expected.close()
        await self.executions.close()


class _Heard(NamedTuple):
    """What hears of commits, and is acted on by somebody who is made later."""

    timers: Timers
    waits: OpenWaits
    limited: LimitedExecutions
    awaited: AwaitedChildren

    def before(self, others: Listeners) -> Listeners:
        own = (self.awaited.stored, self.timers.stored, self.limited.stored, self.waits.stored)
        taken_up = (self.timers.taken_up, self.waits.taken_up)
        return msgspec.structs.replace(others, stored=(*own, *others.stored), taken_up=(*taken_up, *others.taken_up))


class _Ground(NamedTuple):
    """What nearly every object is given."""

    store: Store
    clock: Clock
    policy: SharingPolicy


class _Claiming(NamedTuple):
    """How orders come to workers."""

    pools: Pools
    leases: OrderLeases
    expected: WaitingForResults
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
    """A control plane over an open store. `sharing` says whether other servers decide upon the same executions; an
    embedded run's own are nobody else's. `library` finds nested playbooks, `ability_of` what a worker can do;
    `local_worker` is given what becomes ready while it waits; `notices` says what a commit tells people; `live_output`
    keeps what tasks print while they run."""
    ground = _Ground(store, clock, sharing or OwnExecutions())
    heard = _Heard(Timers(), OpenWaits(remembers=not ground.policy.reaches_all), LimitedExecutions(), AwaitedChildren())
    listeners, secret_release = heard.before(listeners or Listeners()), secret_release or SecretRelease(None)
    decisions = _decisions(ground, results, wakeups, listeners, heard.awaited, terms or LeaseTerms(), notices)
    claiming = _claiming(ground, decisions, ability_of, local_worker)
    # The group commit claims for workers that wait, so claiming is there before it.
    commit = GroupCommit(decisions, decisions.effects, claiming.polls, ground.policy)
    recovery = Recovery(commit, decisions, claiming.claims, clock)

    # None: every server reaches every execution.
    reaches = None if ground.policy.reaches_all else decisions.loaded.__contains__
    gate = PlaybookConcurrency(commit, heard.limited, store, clock, reaches=reaches)
    executions = Executions(*ground, commit=commit, decisions=decisions, admission=gate, secret_release=secret_release)
    calls = NestedCalls(executions, recovery, secret_release, heard.awaited, library or NoLibrary())
    for_workers = LocalControlPlane(
        store,
        executions,
        decisions.effects,
        turns=Turns(commit, decisions, claiming.claims, clock, ground.policy),
        polls=claiming.polls,
        leases=claiming.leases,
        recovery=recovery,
        calls=calls,
        secret_release=secret_release,
        secrets=ExecutionSecrets(store, secret_release, clock, decisions.loaded, ground.policy),
        is_traced=is_traced,
        live_output=live_output,
    )

    chores = (LostOrders(recovery), Followed(executions), OrphanedCalls(calls))
    lost_work = LostWork(chores, decisions.quarantine, store.key_values, clock)
    deliveries = MessageDelivery(executions, store, clock, reaches=reaches)
    background_jobs = _background(ground, heard, executions, gate, deliveries, lost_work, sleep)
    return Assembly(
        executions, for_workers, background_jobs, decisions, commit, calls, claiming.pools, claiming.expected
    )


def _decisions(
    ground: _Ground,
    results: ResultStore,
    wakeups: Wakeups,
    listeners: Listeners,
    awaited: AwaitedChildren,
    terms: LeaseTerms,
    notices: NoticeWriter | None,
) -> Decisions:
    """What decides upon executions in memory, and what happens after each commit."""
    values, ready = ResultCache(results, ground.policy.near_bytes), ReadyOrders()
    loaded = LoadedExecutions(ground.store, values, ground.policy, listeners.watch)
    return Decisions(
        *ground,
        loaded=loaded,
        values=values,
        ready=ready,
        effects=Effects(loaded, ready, wakeups, ground.policy, listeners),
        quarantine=Quarantine(ground.clock),
        awaited=awaited,
        terms=terms,
        notices=notices,
    )


def _claiming(
    ground: _Ground,
    decisions: Decisions,
    ability_of: Callable[[str], WorkerAbilities] | None,
    local_worker: LocalWorker | None,
) -> _Claiming:
    pools, leases = Pools(ground.store, ground.clock), OrderLeases(decisions, ground.store, ground.clock)
    expected = WaitingForResults(decisions.effects.offer_again)
    claims = Claims(decisions, *ground, pools=pools, leases=leases, expected=expected, ability_of=ability_of)
    polls = Polls(claims, decisions.ready, decisions.effects, local_worker)
    return _Claiming(pools, leases, expected, claims, polls)


def _background(
    ground: _Ground,
    heard: _Heard,
    executions: Executions,
    gate: PlaybookConcurrency,
    deliveries: MessageDelivery,
    lost_work: LostWork,
    sleep: Sleep,
) -> BackgroundJobs:
    store, clock = ground.store, ground.clock
    return BackgroundJobs(
        executions=executions,
        store=store,
        clock=clock,
        deliveries=deliveries,
        inbox=HumanTasks(executions, store, clock),
        timer_queue=TimerQueue(executions, heard.timers, store, clock, sleep=sleep),
        message_queue=MessageQueue(deliveries, heard.waits, store, clock),
        gate=gate,
        lost_work=lost_work,
    )
