"""Sharing: what a process may trust from memory, and when it has to look again.

An embedded run drives its own executions: nobody else decides upon them, unless somebody interferes on purpose
(`noetl cancel` on the same store). Servers share all executions of a store: any of them may move any execution at any
moment. Everything that differs between the two is an answer of one of the two policies below, each with its reason.
No other module of `control` asks which of the two it works for.
"""

from __future__ import annotations

import sys
from typing import Protocol

from noetl.control.commit.memory_use import Bounds

TRUST_S = 1.0  # after that long without a word, another server may well have moved an execution
NEAR_BYTES = 1 << 20  # a server reads and writes result files up to this size without leaving its event loop


class SharingPolicy(Protocol):
    """What one process may assume about the executions of its store."""

    # what memory holds

    @property
    def memory_bounds(self) -> Bounds | None:
        """How much is kept in memory; None: every execution until it is released."""

    @property
    def keeps_snapshots(self) -> bool:
        """Whether a decision that was not stored goes back to a snapshot instead of reading the whole log."""

    @property
    def near_bytes(self) -> int:
        """Results in local files up to this size are read and written while deciding."""

    # what memory is worth

    @property
    def shares_executions(self) -> bool:
        """Whether others decide upon the same executions as a matter of course."""

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        """Whether an execution is to be compared with the log before something is decided upon it. `seen_at`: when it
        was known to be as the log has it; `is_contended`: somebody else has moved it before."""

    @property
    def is_memory_current(self) -> bool:
        """Whether an execution may be shown as memory has it, without waiting for a turn in the group commit."""

    @property
    def has_children_in_memory(self) -> bool:
        """Whether all open children of an execution in memory are there too."""

    @property
    def has_secrets_in_memory(self) -> bool:
        """Whether secrets that were read since the record was loaded are known to this process."""

    @property
    def has_orders_offered(self) -> bool:
        """Whether ready orders in the store are offered to workers by themselves, whoever made them."""

    # when to look

    @property
    def follows_all(self) -> bool:
        """Whether catching up concerns every open execution in memory, or only those that somebody waits for."""

    @property
    def follows_after_lost_lease(self) -> bool:
        """Whether the loss of a lease says that somebody else has moved the execution."""

    @property
    def tells_followed_events(self) -> bool:
        """Whether watchers are told of events that another process has recorded."""

    # who else is served

    @property
    def reaches_all(self) -> bool:
        """Whether every execution of the store is told of messages, timers and free places here, or only those in
        memory."""

    @property
    def has_many_workers(self) -> bool:
        """Whether claims go through pools, abilities and poison orders, since workers differ."""

    @property
    def queues_callers(self) -> bool:
        """Whether every caller of the group commit queues, so that callers of one moment share a batch."""

    @property
    def isolates_executions(self) -> bool:
        """Whether one execution that cannot be read, or has to wait, leaves the others of its batch alone."""

    @property
    def outlives_outages(self) -> bool:
        """Whether background jobs go on when the store is away."""


class OwnExecutions:
    """An embedded run: one process, one worker, its own executions and their children."""

    memory_bounds: Bounds | None = None  # they are few, and leave when their result was taken
    keeps_snapshots = False  # conflicts are rare, so a copy of each state would cost more than reading a log again
    near_bytes = sys.maxsize  # nobody else is served, so reading a large file holds up nobody

    # Nobody moves them but us: what memory has is decided upon without a look at the log. Who interferes from outside
    # wins a commit against us, and the conflict tells.
    shares_executions = False

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        return False

    is_memory_current = True  # the batch under way is our own; it is ahead of the log by that at most
    has_children_in_memory = True  # a child begins here, or is taken up together with its parent
    has_secrets_in_memory = True  # every secret of these executions is given out by this process
    has_orders_offered = False  # nothing sweeps the store; who takes up an execution offers its orders

    follows_all = True  # they are few, and each may be paused or cancelled by `noetl` on the same store
    follows_after_lost_lease = True  # only this process grants leases on them, so somebody has taken over
    tells_followed_events = True  # its watcher is the terminal, which reads no log of its own

    reaches_all = False  # another process may drive the others, and hears of what concerns them itself
    has_many_workers = False  # the one worker runs everything; its claims need no pools and no capacity
    queues_callers = False  # a lone caller commits in its own task: no task switch, lower latency
    isolates_executions = False  # who waits for the run shall hear what is wrong, at once
    outlives_outages = False  # likewise: an embedded run on a broken store ends with an error


class SharedExecutions:
    """A server: others on the same store decide upon the same executions, and many workers claim from it."""

    memory_bounds: Bounds | None = Bounds()  # the store may hold millions; the log has what leaves
    keeps_snapshots = True  # decisions are lost to other servers again and again
    near_bytes = NEAR_BYTES  # a large file would hold up everybody else on the event loop

    # Asking the store at every load would cost one query per decision. Within TRUST_S memory is believed, and a wrong
    # guess loses its commit and is decided again. Where that has happened once, it may happen again at any moment.
    shares_executions = True

    def may_have_moved(self, seen_at: float, now: float, *, is_contended: bool) -> bool:
        return is_contended or seen_at < now - TRUST_S

    is_memory_current = False  # what is shown must be as new as what another server has just answered
    has_children_in_memory = False  # they may have begun on another server
    has_secrets_in_memory = False  # another server may have given one out a moment ago
    has_orders_offered = True  # every server sweeps the store for orders that nobody offers

    follows_all = False  # thousands are loaded; who touches one looks by himself
    follows_after_lost_lease = False  # a worker that was slow loses its lease without anybody moving the execution
    tells_followed_events = False  # a server's streams read the log themselves, and would tell everything twice

    reaches_all = True  # any server may decide upon any execution
    has_many_workers = True  # they come by HTTP, each with its pools, labels and tool kinds
    queues_callers = True  # they come by the dozen, and the time of one commit gathers them for the next
    isolates_executions = True  # one broken log must not stop a server
    outlives_outages = True  # it waits until its store is back
