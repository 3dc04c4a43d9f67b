"""The contract of tools: a tool runs one task. It sees rendered inputs, never a template, a store or a net.

A tool returns a `ToolResult` or raises `ToolError`; any other exception becomes the error outcome `tool.exception`
(OUT-05). The worker does the timing, policy and recording. The module also has the contract of trigger sources.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.addresses.policy import UNGUARDED, AddressGuard
from noetl.events.orders import OutputStream, PlaybookCallResult
from noetl.events.outcomes import Reference

UNKNOWN: Any = object()  # `ToolContext.name` returns it for a name that nothing defines


def _record_nothing(*_: Any, **__: Any) -> None:
    """The default of `LiveReports.remark`, for task runs that are not recorded."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a task that succeeded."""

    result: Any = None  # plain JSON data
    # The payload is the `data` member of the result, as with http: templates read `step.data` and its fields (O-22).
    wrapped: bool = False
    # The kind's own names beside the outcome (OUT-02): {"http": {"status": 200}} is `outcome.http.status`.
    helpers: dict[str, dict[str, Any]] = {}
    # The output of the task; the worker masks and shortens it and stores it in `meta`.
    stdout: str | None = None


class Secrets(Protocol):
    """Secrets by name, for one task run. The worker masks each value it returns in all output of the task (KEY-06)."""

    async def get(self, name: str, *, kind: str = "", lookup: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fields of a secret: by a resolver's `kind`, else a keychain entry, else a stored credential. Raises
        ToolError `keychain.unresolved` with the reason if there is none."""

    async def renew(self, name: str) -> None:
        """Renew an entry; later reads return the new value (KEY-04)."""


class Playbooks(Protocol):
    """Nested playbooks, for one task run."""

    async def call(
        self, path: str, *, version: str | None, payload: dict[str, Any], return_step: str | None, wait: bool
    ) -> PlaybookCallResult:
        """Start the child, or find the one that an earlier attempt started, and wait for its end if `wait`. Raises
        ToolError `playbook.failed` with the reason if it cannot be started."""

    async def compensate(self, execution_id: str) -> PlaybookCallResult:
        """Run the compensations that a nested execution of this one registered, and wait for them (design.md §8)."""

    async def give_up(self, reason: str) -> None:
        """Cancel the child, since its caller no longer waits for it."""


class OutputWriter(Protocol):
    """Receives the bytes that a task prints, while it runs."""

    def __call__(self, data: bytes, stream: OutputStream = "stdout") -> None: ...


class TaskRunIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt of which task run a tool works for."""

    execution_id: str
    step: str  # the name of the step
    task: str  # the name of the task in its pipeline
    attempt: int  # 1 for the first; a retry has the next number
    task_run_id: str  # differs for each attempt; one that is repeated after a lost lease keeps it
    idempotency_key: str  # the same for every attempt of one visit of a task (reliability.md §3.4)
    traceparent: str | None = None  # the W3C trace header for calls to other programs


class ToolPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions that the operator of the worker gives a tool."""

    data_folders: tuple[str, ...] = ()  # folders of files that a tool may open for a playbook (design.md §7)
    sandbox: bool = False  # code of the playbook runs in a sandbox only, regardless of the playbook
    kinds: frozenset[str] = frozenset()  # kinds that run programs of this machine and are turned on
    provider_stand_ins: tuple[str, ...] = ()  # the operator's stand-ins for providers (QNT-03)


class ResultsAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The results store, as far as a tool may use it. A function is None where there is no store."""

    keep: Callable[[Any], Reference] | None = None  # writes a value (RES-02)
    load: Callable[[Reference], Any] | None = None  # reads a value
    keep_table: Callable[[Path], Awaitable[Reference]] | None = None  # streams a file of rows to the store
    fetch_table: Callable[[Reference, Path], Awaitable[None]] | None = None  # writes such a table to a file


class LiveReports(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of a tool to its worker while it runs, before its outcome."""

    remark: Callable[..., None] = _record_nothing  # records an event of the task run
    # Receives the output of the task as it is read, for people who watch the run. It masks, and never waits. The event
    # log keeps the `stdout` of the outcome; of a task that is stopped at its time limit it keeps the output received
    # here.
    write_output: OutputWriter | None = None
    # Functions that end what the tool has begun elsewhere, under names that the tool chooses. The worker calls them if
    # the order is cancelled; the tool removes each when its work has ended (SRV-11).
    cleanups: dict[str, Callable[[], Awaitable[Any]]] = {}


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a task run."""

    task_run: TaskRunIdentity

    # From the playbook.
    spec: Mapping[str, Any]  # the effective spec, rendered
    policy: Mapping[str, Any] = {}  # the policy of the playbook for the whole kind (QNT-06)
    name: Callable[[str], Any]  # resolves a bare name as a template would (TPL-06), to plain data

    # Secrets.
    resolve: Callable[[str], Mapping[str, Any]] | None = None  # fields of a credential; None where there is no keychain
    secrets: Secrets | None = None  # looks up other secrets
    # Replaces secrets in a text by `***`. The worker masks all output anyway, but it cannot recognise a secret that a
    # tool has cut or changed. So a tool masks a text before it cuts or changes it (KEY-06).
    mask: Callable[[str], str] = str
    secret_forms: Callable[[], tuple[str, ...]] = tuple  # the texts that must not be in a table

    # From the operator.
    permissions: ToolPermissions = ToolPermissions()
    # Resolves a host to the addresses that may be reached. A tool asks before it connects, and connects to the address
    # it gets: a second look-up of the name could return another address.
    addresses: AddressGuard = UNGUARDED

    # Services of the worker.
    results: ResultsAccess = ResultsAccess()
    tool: Callable[[str], Tool] | None = None  # the tool of another kind, for kinds that build on others
    playbooks: Playbooks | None = None  # starts nested playbooks
    now: Callable[[], float] = time.time  # the worker's clock
    # Made for each context: `cleanups` belongs to one order.
    live: LiveReports = msgspec.field(default_factory=LiveReports)

    def with_folder(self, folder: str) -> ToolContext:
        """The context for a tool that this one calls: it may also open files of `folder`."""
        folders = (*self.permissions.data_folders, folder)
        return msgspec.structs.replace(
            self, permissions=msgspec.structs.replace(self.permissions, data_folders=folders)
        )


class Tool(Protocol):
    """The implementation of one kind. One instance serves a worker for its whole life. Built-in kinds inherit it, and
    with it a `close` and `helpers` that have nothing to do; a plug-in may do either."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run one attempt of a task. It is cancelled at its timeout and must leave nothing running then."""

    async def close(self) -> None:
        """Release all connections and processes: the worker ends."""
        return  # a body, so that the method is not abstract for subclasses

    def helpers(self) -> dict[str, dict[str, Any]]:
        """The kind's names on an outcome that the tool did not make (a timeout, a template error), each null."""
        return {}


class Owned(Protocol):
    """Resources of a tool between tasks: child processes, connections, files."""

    def release(self, execution_id: str) -> None:
        """Free what is kept for an execution that is over. Callers are synchronous, so this does not wait."""

    async def close(self) -> None:
        """Free everything, and wait until it is gone."""


class OwningTool(Tool):
    """A tool that keeps something for executions. It is freed when they end, and with the tool."""

    def __init__(self, *owned: Owned) -> None:
        self._owned = owned

    def release(self, execution_id: str) -> None:
        for one in self._owned:
            one.release(execution_id)

    async def close(self) -> None:
        for one in self._owned:
            await one.close()


# Trigger sources: tools that find new items, so that one execution is started for each.
#
# Such a tool has the method `poll`, and its kind has `trigger` (`noetl.net.kinds`). Tools of plug-ins are found in the
# same way. A source remembers no position: the control plane keeps the cursor and moves it on only after every item of
# a batch has its execution. After a crash in between the same items are read again.


class TriggerItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item that arrived."""

    # Unique in the source, and the same whenever the item is read again. The id of its execution follows from it, so
    # that an item starts one execution however often it is read.
    item_id: str
    value: Any
    # Identifies the item when it is settled with the source.
    receipt: str = ""
    # Why the item starts nothing: it becomes a dead letter.
    refusal: str = ""


class TriggerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Items in their order. `cursor` is plain data; a later poll with it continues after all of them."""

    items: tuple[TriggerItem, ...] = ()
    cursor: Any = None


class TriggerPoll(msgspec.Struct, frozen=True, kw_only=True):
    """One request for new items. `cursor` is None at the beginning. A source that can wait does so for at most `wait_s`
    until the first item. `trigger_id` names this reader to brokers that store a position for each reader."""

    trigger_id: str
    cursor: Any = None
    limit: int = 100
    wait_s: float = 0.0


class TriggerSource(Protocol):
    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """The items after the cursor, at most `limit`. Raises ToolError with the reason if they cannot be read."""


class SettlingSource(TriggerSource, Protocol):
    """A source that delivers an item again until it is accepted, as message brokers do."""

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        """Confirm the `accepted` items, which have their executions, and return the others for another delivery."""
