"""Sharing: when a process may trust its memory, and when it has to read the log.

An embedded run drives its own executions. No other process decides upon them, except on purpose (`noetl cancel` on the
same store). Servers share all executions of a store: any server may move any execution at any moment. Every difference
between the two is an attribute of the two policies below, with its reason. No other module of `control` asks whether it
works for a server or for an embedded run.
"""

from __future__ import annotations

import sys
from typing import Protocol

from noetl.control.commit.memory_use import Bounds

TRUST_S = 1.0  # how long memory is trusted after it was compared with the log
NEAR_BYTES = 1 << 20  # a server reads and writes result files up to this size on its event loop


class SharingPolicy(Protocol):
    """The assumptions that one process may make about the executions of its store."""

    # the contents of memory

    @property
    def memory_bounds(self) -> Bounds | None:
        """How much is kept in memory. None: every execution, until it is released."""

    @property
    def keeps_snapshots(self) -> bool:
        """Whether a failed commit is undone from a snapshot instead of reading the whole log."""

    @property
    def near_bytes(self) -> int:
        """Results in local files up to this size are read and written while deciding."""

    # when memory can be trusted

    @property
    def shares_executions(self) -> bool:
        """Whether other processes regularly decide upon the same executions."""

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        """Whether an execution must be compared with the log before a decision. `seen_at` is the time of the last
        comparison; `is_contended`: another process has moved it before."""

    @property
    def is_memory_current(self) -> bool:
        """Whether views may show an execution from memory, without a turn in the group commit."""

    @property
    def has_children_in_memory(self) -> bool:
        """Whether all open children of an execution in memory are in memory too."""

    @property
    def has_secrets_in_memory(self) -> bool:
        """Whether this process knows every secret that was released since the execution's record was loaded."""

    @property
    def has_orders_offered(self) -> bool:
        """Whether a background job offers every ready order of the store to workers."""

    # when to read the log

    @property
    def follows_all(self) -> bool:
        """Whether catching up concerns every open execution in memory, or only those that a caller waits for."""

    @property
    def follows_after_lost_lease(self) -> bool:
        """Whether a lost lease is a sign that another process has moved the execution."""

    @property
    def reports_followed_events(self) -> bool:
        """Whether watchers receive events that another process has recorded."""

    # the other executions

    @property
    def reaches_all(self) -> bool:
        """Whether this process delivers messages, timers and free places to every execution of the store, or only to
        those in memory."""

    @property
    def has_many_workers(self) -> bool:
        """Whether claims go through pools, abilities and poison orders, since workers differ."""

    @property
    def queues_callers(self) -> bool:
        """Whether every caller of the group commit queues, so that concurrent callers share a batch."""

    @property
    def isolates_executions(self) -> bool:
        """Whether the batch goes on without an execution that cannot be read or has to wait."""

    @property
    def outlives_outages(self) -> bool:
        """Whether background jobs go on when the store is unreachable."""


class OwnExecutions:
    """An embedded run: one process, one worker, its own executions and their children."""

    memory_bounds: Bounds | None = None  # they are few, and are released once their result was read
    keeps_snapshots = False  # conflicts are rare, so a copy of each state would cost more than reading a log again
    near_bytes = sys.maxsize  # no other client is served, so reading a large file delays no request

    # No other process moves them, so decisions need no look at the log. If a `noetl` command interferes, its commit
    # wins, and the conflict makes this process read the log.
    shares_executions = False

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        return False

    is_memory_current = True  # memory is ahead of the log by the batch under way at most, which is this process's own
    has_children_in_memory = True  # a child begins here, or is taken over together with its parent
    has_secrets_in_memory = True  # every secret of these executions is released by this process
    has_orders_offered = False  # no job sweeps the store; a takeover offers the orders of its execution

    follows_all = True  # they are few, and each may be paused or cancelled by `noetl` on the same store
    follows_after_lost_lease = True  # only this process grants leases on them, so another process has taken over
    reports_followed_events = True  # its watcher is the terminal, which does not read the log

    reaches_all = False  # another process may drive the others, and polls the store for them
    has_many_workers = False  # the one worker runs everything; its claims need no pools and no capacity
    queues_callers = False  # a lone caller commits in its own task: no task switch, lower latency
    isolates_executions = False  # the user waits for this run and must see its error at once
    outlives_outages = False  # likewise: an embedded run on a broken store ends with an error


class SharedExecutions:
    """A server: others on the same store decide upon the same executions, and many workers claim from it."""

    memory_bounds: Bounds | None = Bounds()  # the store may hold millions; an evicted one is read again from the log
    keeps_snapshots = True  # commits lose to other servers regularly
    near_bytes = NEAR_BYTES  # a larger file would delay every other client of the event loop

    # A query at every load would cost one query per decision. Within TRUST_S memory is trusted; if it was wrong, the
    # commit fails with a conflict and the command is decided again. After one conflict the next is likely.
    shares_executions = True

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        return is_contended or seen_at < now - TRUST_S

    is_memory_current = False  # a view must be as new as what another server has just answered
    has_children_in_memory = False  # they may have begun on another server
    has_secrets_in_memory = False  # another server may have released one a moment ago
    has_orders_offered = True  # every server sweeps the store for orders that are in no memory

    follows_all = False  # thousands are loaded, and each is compared with the log when a command concerns it
    follows_after_lost_lease = False  # a slow worker loses its lease although the execution has not moved
    reports_followed_events = False  # a server's streams read the log themselves, and would show everything twice

    reaches_all = True  # any server may decide upon any execution
    has_many_workers = True  # they come by HTTP, each with its pools, labels and tool kinds
    queues_callers = True  # they come by the dozen, and the time of one commit gathers them for the next
    isolates_executions = True  # one broken log must not stop a server
    outlives_outages = True  # it waits until its store is back
