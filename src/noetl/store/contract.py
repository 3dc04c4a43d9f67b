"""The promises every backend keeps. One engine step is one commit; a commit is durable.

All state is in the event log. Orders and execution rows are written in the same transaction and can be rebuilt from the
log; they exist so that work and lists are found without reading it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

import msgspec

from noetl.base.clock import rfc3339
from noetl.base.errors import BackendError
from noetl.events.envelope import Event
from noetl.events.outcomes import Reference
from noetl.store.audit import Audit
from noetl.store.human_tasks import TaskRow, Tasks
from noetl.store.installation import Catalog, CredentialRows, KeyValues
from noetl.store.notices import NoticeRow, Notices
from noetl.store.row_summary import NOTHING, RowSummary
from noetl.store.waits import Requests, WaitRow, Waits


class ConflictError(BackendError):
    """Another process has moved this execution, or holds this order: load it again and decide again."""


class TakenError(ConflictError):
    """Another caller has the message, or the id of the new execution, for good: deciding again cannot succeed."""


class OrderState(StrEnum):
    READY = "ready"
    LEASED = "leased"
    CLOSED = "closed"


DEFAULT_POOL = "default"


class OrderRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An order as the outbox knows it."""

    order_id: str
    execution_id: str
    step_run_id: str
    state: OrderState = OrderState.READY
    # Only workers of this pool are given it (SRV-08), those of a higher priority first (ADV-03). Both stay as they were
    # when the order was made.
    pool: str = DEFAULT_POOL
    priority: int = 0
    lease_owner: str | None = None  # the worker that holds it, or held it last
    lease_epoch: int = 0  # counts its leases, so that late reports are refused; 0 for an order that was never leased
    # In no log: a renewed lease changes this column alone, without an event (see inspection.py).
    lease_until: float | None = None

    def is_claimable(self, now: float) -> bool:
        """Whether a worker may take it: it is ready, or its lease has run out or was given back."""
        return self.state is OrderState.READY or (
            self.state is OrderState.LEASED and self.lease_until is not None and self.lease_until < now
        )


class ExecutionRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The row of an execution in lists; derived from the log."""

    execution_id: str
    trace_id: str
    path: str
    name: str
    net_hash: str  # the version of the playbook that it began with and keeps
    status: str  # running | paused | completed | failed | cancelled, as the engine's life cycle names them
    # How many events it has. `Commit.after` is compared with it, so it is the lock of the execution too.
    last_seq: int
    created_at: float
    finished_at: float | None = None
    parent_execution_id: str | None = None
    # When its next timer is due; None if no timer is set, or while it is paused (TMR-06, O-16).
    wake_at: float | None = None
    # Iterations that failed, and all of the loops in which some did. None: an earlier version moved it last, uncounted.
    failed_iterations: int | None = None
    iterations: int | None = None
    summary: RowSummary | None = None  # None: there is nothing to say, or an earlier version moved it last

    def readable(self) -> dict[str, Any]:
        """As other programs read it. Durations are rounded to milliseconds, as the times beside them are."""
        finished, wake = self.finished_at, self.wake_at
        return {
            "execution_id": self.execution_id,
            "path": self.path,
            "name": self.name,
            "status": self.status,
            "created_at": rfc3339(self.created_at),
            "finished_at": rfc3339(finished) if finished is not None else None,
            "duration_s": round(finished - self.created_at, 3) if finished is not None else None,
            "events": self.last_seq,
            "trace_id": self.trace_id,
            "net_hash": self.net_hash,
            "parent_execution_id": self.parent_execution_id,
            "wake_at": rfc3339(wake) if wake is not None else None,
            "failed_iterations": self.failed_iterations,
            "iterations": self.iterations,
            **(self.summary or NOTHING).readable(),
        }


class PoolCapacity(msgspec.Struct, frozen=True):
    """No more than `capacity` orders of a pool may be held at `now`, under leases that have not run out (SRV-08)."""

    pool: str
    capacity: int
    now: float  # by the clock of the server that claims: leases are measured by it too


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One engine step of one execution: everything that has to be stored together, or not at all."""

    # The last `seq` of the log that the decision was based on; 0 begins an execution. The store refuses the commit if
    # the log has grown since.
    after: int
    # As it is after the commit.
    execution: ExecutionRow
    events: tuple[Event, ...]
    # The encoded payloads of the events, if the caller has them; otherwise empty. They are needed for limits, memory
    # use and the write itself, and encoding is the expensive part.
    bodies: tuple[bytes, ...] = ()
    orders: tuple[OrderRow, ...] = ()  # every order that it makes, leases or closes, as it leaves it
    # The compiled playbook, with the first commit of an execution. Kept once per content hash.
    net: bytes | None = None
    waits: tuple[WaitRow, ...] = ()  # those that it opens or changes
    closed_waits: tuple[str, ...] = ()  # the ids of those that have ended
    taken_messages: tuple[str, ...] = ()  # delivered by it, each to one wait only (MSG-02)
    tasks: tuple[TaskRow, ...] = ()
    # It claims orders of these pools, and is refused if that would exceed their capacity.
    room: tuple[PoolCapacity, ...] = ()
    # Notices about its events. One that exists already stays as it is: its id is derived from the event.
    notices: tuple[NoticeRow, ...] = ()


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a stream: of these types (each may hold `*`), of this step, at most so many, from its beginning
    or from its end."""

    types: tuple[str, ...] = ()
    step: str | None = None
    limit: int | None = None
    newest: bool = False


class MovedExecutions(msgspec.Struct, frozen=True):
    """Executions that have moved."""

    cursor: str  # where to go on from; each backend writes its own kind, and callers only hand it back
    positions: dict[str, int] = {}  # the last `seq` of each


class History(Protocol):
    """Read access to the record; a reader never blocks a writer."""

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        """The stream past `after`, in order; empty for an unknown execution. `only` picks from it."""

    async def execution(self, execution_id: str) -> ExecutionRow | None: ...

    async def positions(self, execution_ids: Collection[str]) -> dict[str, int]:
        """The last `seq` of each of these executions; nothing of those it does not know."""

    async def executions(
        self, *, limit: int = 50, status: str | None = None, path: str | None = None, beyond: str | None = None
    ) -> list[ExecutionRow]:
        """The newest first. `path` may hold `*`; `beyond` is the last execution of the page before."""

    async def registered(self, path: str) -> set[str] | None:
        """The nets, by hash, of the registered versions of a playbook; None where the rows say themselves what is a
        draft."""

    async def children(self, execution_id: str) -> list[ExecutionRow]:
        """The executions that this one has started, the oldest first."""

    async def tally(self) -> dict[str, int]:
        """How many executions there are, by status."""

    async def begin_with(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Execution ids that begin so, in order."""


class EventLog(History, Protocol):
    """Append-only history, one ordered stream per execution."""

    async def commit(self, commits: Sequence[Commit]) -> None:
        """Store all of `commits` or none, durably. ConflictError if a stream is past its `after`, or an order was
        leased meanwhile under another epoch, or a message was delivered elsewhere, or a pool would be over its
        `room`, also with concurrent commits; an `event_id` is stored once per execution."""


class Outbox(Protocol):
    """Orders that wait for a worker, or are held by one under a lease."""

    async def orders(self, execution_id: str) -> list[OrderRow]:
        """The open orders of one execution, in the order they were made."""

    async def claimable(self, *, now: float, limit: int, pools: Collection[str] | None = None) -> list[OrderRow]:
        """Orders that are ready, or whose lease has run out: of these pools (None: of all), those of the highest
        priority first, then the oldest. Orders of paused executions are among them."""

    async def unclaimed(self, *, now: float) -> dict[str, int]:
        """How many orders of each pool are ready, or held under a lease that has run out; nothing of pools without."""

    async def leased(self, *, now: float, pools: Collection[str] | None = None) -> dict[str, int]:
        """How many orders of each of these pools (None: of all) are held under a lease that has not run out."""

    async def lapsed(self, *, now: float) -> dict[str, float]:
        """The workers with an expired lease on an order that was not claimed since, with the end of the latest such
        lease. A returned lease has not expired."""

    async def held_by(self, owner: str) -> list[OrderRow]:
        """The orders that are held by this worker, or were until their lease ran out."""

    async def renew(self, order_id: str, *, lease_epoch: int, lease_until: float, owner: str | None = None) -> bool:
        """Extend a lease; False if it is no longer held under this epoch, or not by `owner` where one is named. A time
        in the past ends the lease."""


class TimerIndex(Protocol):
    """Executions with timers."""

    async def due(self, *, now: float, limit: int) -> list[ExecutionRow]:
        """Executions whose `wake_at` has come, the longest overdue first."""

    async def next_due(self) -> float | None:
        """The earliest `wake_at` of all executions, None if no timer is set."""

    async def timed(self, wait_id: str) -> str | None:
        """The execution that scheduled this timer, None when there is none."""


class Nets(Protocol):
    """Compiled playbooks by content hash, so that an execution keeps the one it began with."""

    async def net(self, net_hash: str) -> bytes:
        """BackendError when there is none."""


class Records(History, Nets, Protocol):
    """Read-only access to a store."""

    @property
    def key_values(self) -> KeyValues | None:
        """None where readers may not see it."""

    async def orders(self, execution_id: str) -> list[OrderRow]:
        """The open orders of one execution, in the order they were made."""

    async def close(self) -> None: ...


class ExecutionQuery(TypedDict, total=False):
    """Which executions a list has. A key that is left out or None excludes none."""

    status: str | None
    path: str | None  # may hold `*`
    since: float | None  # created then or later
    until: float | None  # created before
    text: str | None  # occurs in the id, the path or the name, ASCII letters of either case
    labels: Mapping[str, str] | None  # of the playbook's metadata, which must have them with these values
    error: str | None  # the kind of error that it failed with
    step: str | None  # that this error came from


class ExecutionSearch(History, Protocol):
    """Queries over all executions, and over changes by other processes."""

    async def executions(
        self, *, limit: int = 50, beyond: str | None = None, **wanted: Unpack[ExecutionQuery]
    ) -> list[ExecutionRow]:
        """The newest first; `beyond` is the last execution of the page before."""

    async def open_among(self, execution_ids: Collection[str]) -> set[str]:
        """Those of these executions that exist and have not ended."""

    async def moved(self, since: str | None) -> MovedExecutions:
        """The executions that have moved since a cursor; some may be returned twice, none is missed. Without a cursor,
        only the cursor to begin with. A cursor of another store, or from before a crash, gives those that can still be
        found."""


class RetentionStore(Protocol):
    """Deleting executions that have ended, each as a whole (EVT-01, reliability.md §3.6)."""

    async def ended_nets(self) -> list[str]:
        """The nets, by hash, of executions that have ended."""

    async def outlived(self, net_hash: str, *, before: float, limit: int) -> list[str]:
        """Executions of this net that ended before then, the oldest end first. A nested one stays while its parent
        is open."""

    async def retire(self, execution_ids: Collection[str]) -> int:
        """Delete these with all their rows, in one transaction; returns how many. An open execution stays."""

    @property
    def patience_s(self) -> float:
        """How long expired executions may wait for others that began in the same span of time, so that all are deleted
        together; 0 where each is deleted alone."""

    async def retire_spans(self, before: Mapping[str, float]) -> dict[str, str]:
        """Delete the executions of whole spans of time, where all of them have expired: `before` has the moment by net
        hash. Returns the net of each deleted execution; nothing where each is deleted alone."""

    async def checksums(self) -> set[str]:
        """The checksums of all results that events and messages of this store refer to."""


class Store(ExecutionSearch, EventLog, Outbox, TimerIndex, Nets, RetentionStore, Protocol):
    """All of it, over one database, so that one transaction covers what belongs together."""

    @property
    def credentials(self) -> CredentialRows: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def waits(self) -> Waits: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def key_values(self) -> KeyValues: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def notices(self) -> Notices: ...

    async def now(self) -> float | None:
        """The time on the machine that holds the data; None if that is this machine."""

    async def rebuild(self) -> int:
        """Make the rows of executions, orders, waits and human tasks again from the log, in one transaction. Returns
        the number of executions (EVT-01). All leases are expired afterwards."""

    async def close(self) -> None: ...


class Results(Protocol):
    """Values too large for an event, addressed by their content (RES-01, RES-02)."""

    def put(self, value: Any) -> Reference:
        """Store a JSON value durably and say where; an equal value is stored once."""

    def load(self, reference: Reference) -> Any:
        """The value, its checksum verified. ToolError `result.missing` or `result.corrupt` otherwise."""


class ResultStore(Results, Protocol):
    """A backend that stores results. `store` is its name in references. One that `is_outside` is reached over a
    network: there `put`, `load`, `body`, `untouched` and `drop` may block for long, so an event loop awaits `send`
    and `fetch`, or calls them in a thread."""

    @property
    def store(self) -> str: ...

    @property
    def is_outside(self) -> bool: ...

    async def send(self, body: bytes) -> None:
        """Return once this JSON text is stored durably, under the SHA-256 of it. BackendError while that fails."""

    async def fetch(self, checksum: str) -> bytes:
        """The same as `body`, asynchronously. BackendError while the store is unavailable."""

    async def send_file(self, file: Path) -> str:
        """Store a table, as the file that it is, in flat memory. Returns its SHA-256 once it is stored durably."""

    async def fetch_file(self, checksum: str, into: Path) -> None:
        """Write a stored table to a file, its checksum verified. ToolError `result.missing` or `result.corrupt`."""

    def table_file(self, checksum: str) -> Path | None:
        """The file of a stored table, to be read only; None for a store elsewhere. ToolError `result.missing`."""

    def body(self, checksum: str) -> bytes:
        """The result of `load`, as the stored JSON text."""

    def untouched(self, *, before: float) -> list[str]:
        """The checksums of values that were not put since then."""

    def drop(self, checksum: str, *, before: float) -> bool:
        """Remove a value; False if it is gone already, or an equal one was put since."""

    def close(self) -> None:
        """Release connections and files."""
