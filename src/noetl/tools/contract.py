"""What runs one task, and nothing else. It sees rendered inputs, never a template, a store or a net. Also the contract
of tools that find what is new, for triggers.

A tool returns a `ToolResult` or raises `ToolError`; whatever else it raises becomes the error outcome
`tool.exception` (OUT-05). Timing, policy and recording are the worker's business.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.addresses.guard import UNGUARDED, AddressGuard
from noetl.events.orders import OutputStream, PlaybookCallResult
from noetl.events.outcomes import Reference

UNKNOWN: Any = object()  # what `ToolContext.name` gives for a name that is nowhere


def _nobody_listens(*_: Any, **__: Any) -> None:
    """For task runs that are not recorded."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A success."""

    result: Any = None  # plain JSON data
    # The payload is the `data` member of the result, as of http: templates read `step.data` and its fields (O-22).
    wrapped: bool = False
    # The kind's own words beside the outcome (OUT-02): {"http": {"status": 200}} is `outcome.http.status`.
    helpers: dict[str, dict[str, Any]] = {}
    # What it printed; it goes to `meta`, masked and cut.
    stdout: str | None = None


class Secrets(Protocol):
    """Secrets by name, for one task run. What is given out is masked in everything the task leaves behind (KEY-06)."""

    async def get(self, name: str, *, kind: str = "", lookup: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fields of a secret: by a resolver's `kind`, else a keychain entry, else a stored credential. ToolError
        `keychain.unresolved` says why there is none."""

    async def renew(self, name: str) -> None:
        """Have an entry renewed; later reads see the new value (KEY-04)."""


class Playbooks(Protocol):
    """Nested playbooks, for one task run."""

    async def call(
        self, path: str, *, version: str | None, payload: dict[str, Any], return_step: str | None, wait: bool
    ) -> PlaybookCallResult:
        """Start the child, or find it again, and wait for its end if `wait`. ToolError `playbook.failed` says why
        there is none."""

    async def compensate(self, execution_id: str) -> PlaybookCallResult:
        """Undo what a nested execution of ours had registered, and wait for it (design.md §8)."""

    async def give_up(self, reason: str) -> None:
        """Cancel the child, since nobody waits for it any more."""


class Printed(Protocol):
    def __call__(self, data: bytes, stream: OutputStream = "stdout") -> None: ...


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a task run may know of its surroundings. Flat, since authors of plug-ins read it: one name, one thing."""

    # Which task run this is.
    execution_id: str
    step: str
    task: str
    attempt: int
    task_run_id: str
    idempotency_key: str  # the same for every attempt of one visit of a task (reliability.md §3.4)
    traceparent: str | None = None  # the header by which another program learns which span it is called from

    # What its playbook says.
    spec: Mapping[str, Any]  # the effective spec, rendered
    policy: Mapping[str, Any] = {}  # what the playbook says of the whole kind (QNT-06)
    name: Callable[[str], Any]  # resolves a bare name as a template would (TPL-06), to plain data

    # Secrets.
    resolve: Callable[[str], Mapping[str, Any]] | None = None  # fields of a credential, where there is a keychain
    secrets: Secrets | None = None  # looks other secrets up
    # Takes secrets out of a text. All that leaves is masked anyway, but a secret that a tool has cut or changed can no
    # longer be recognised: a tool masks before it does so (KEY-06).
    masked: Callable[[str], str] = str
    secret_forms: Callable[[], tuple[str, ...]] = tuple  # the texts that must not be in a table

    # What the operator allows.
    data_folders: tuple[str, ...] = ()  # folders of files that a tool may open for a playbook (design.md §7)
    sandbox: bool = False  # code of the playbook runs in a sandbox only, whatever the playbook says
    allowed: frozenset[str] = frozenset()  # kinds that are turned on, since they run programs of this machine
    # The addresses of a host that may be reached. A tool asks before it connects, and connects to what it was given:
    # a second look-up of the name could give another address.
    addresses: AddressGuard = UNGUARDED
    provider_stand_ins: tuple[str, ...] = ()  # the operator's stand-ins for providers (QNT-03)

    # What it can use.
    keep: Callable[[Any], Reference] | None = None  # writes to the results store (RES-02)
    load: Callable[[Reference], Any] | None = None  # reads from it
    keep_table: Callable[[Path], Awaitable[Reference]] | None = None  # a file of rows, streamed
    fetch_table: Callable[[Reference, Path], Awaitable[None]] | None = None  # writes such a table to a file
    tool: Callable[[str], Tool] | None = None  # the tool of another kind, for kinds that move things between others
    playbooks: Playbooks | None = None  # starts nested ones
    now: Callable[[], float] = time.time  # the worker's clock

    # What it tells.
    remark: Callable[..., None] = _nobody_listens  # something of the task run besides its outcome, as an event
    # Takes what the task prints, as it is read, for people who look while it runs; None where nobody can. It masks, and
    # never waits. What the log keeps is the `stdout` of the outcome.
    printed: Printed | None = None
    # What ends things that the tool has begun elsewhere, by names of the tool's own. Called if nobody wants the order
    # any more while they last (SRV-11).
    unwanted: dict[str, Callable[[], Awaitable[Any]]] = {}


class Tool(Protocol):
    """One kind. One instance serves a worker for its whole life."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Do it once. Cancelled when its time is over: leave nothing running then."""

    async def close(self) -> None:
        """The worker ends: leave nothing behind."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        """The kind's words on an outcome it had no hand in (a timeout, a template error): present, and null."""


# Trigger sources: tools that find what is new, so that a playbook can be started for each of it.
#
# A tool that is one has the method `poll`, and its kind has `trigger` (`noetl.net.kinds`). Tools of plug-ins are found
# in the same way. A source does not remember what it gave: the cursor is kept by whoever polls, and moves on only after
# every item of a batch has its execution.


class TriggerItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that arrived."""

    # The same whenever this item is read again, and no other item of the source has it: the id of its execution follows
    # from it, so that it starts one execution however often it is read.
    item_id: str
    value: Any
    # What the source needs to be told that the item is done with.
    receipt: str = ""
    # Why the item starts nothing: it becomes a dead letter.
    refusal: str = ""


class TriggerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Items in their order. `cursor`: plain data, from which a later poll goes on after all of them."""

    items: tuple[TriggerItem, ...] = ()
    cursor: Any = None


class TriggerPoll(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` is None at the beginning; a source that can be waited on waits at most `wait_s` for a first item.
    `trigger_id` names this reader to brokers that keep a position of each reader."""

    trigger_id: str
    cursor: Any = None
    limit: int = 100
    wait_s: float = 0.0


class TriggerSource(Protocol):
    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """What is new after the cursor, at most `limit` items. ToolError says why it cannot be told."""


class SettlingSource(TriggerSource, Protocol):
    """A source whose items are handed out, and handed out again until somebody is done with them."""

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        """`accepted` have their executions and never come again; `returned` come again soon."""
