"""What runs one task, and nothing else. It sees rendered inputs, never a template, a store or a net.

A tool returns a `ToolResult` or raises `ToolError`; whatever else it raises becomes the error outcome
`tool.exception` (OUT-05). Timing, policy and recording are the worker's business.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from noetl.base.addresses.guard import UNGUARDED, AddressGuard
from noetl.events.calls import PlaybookCallResult
from noetl.events.live_output import OutputStream
from noetl.events.references import Reference

UNKNOWN: Any = object()  # what `ToolContext.name` gives for a name that is nowhere


def _nobody_listens(*_: Any, **__: Any) -> None:
    """For task runs that are not recorded."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A success. `helpers` are the kind's own words beside the outcome (OUT-02); `stdout` goes to `meta`.
    `wrapped`: the payload is the `data` member of the result (O-22)."""

    result: Any = None
    wrapped: bool = False
    helpers: dict[str, dict[str, Any]] = {}
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
    """What a task run may know of its surroundings.

    `spec` is the effective spec, rendered. `idempotency_key` is the same for every attempt of one visit of a task
    (reliability.md §3.4). `name` resolves a bare name as a template would (TPL-06), to plain data. `resolve` gives the
    fields of a credential by its name, where there is a keychain; `secrets` looks others up. `data_folders` are the
    folders of files that a tool may open for a playbook (design.md §7); `sandbox`: code of the playbook runs in a
    sandbox only, whatever the playbook says. `allowed` are the kinds that the operator has turned on, since they run
    programs of this machine. `keep` and `load` reach the results store
    (RES-02); `tool` gives the tool of another kind, for kinds that move things between others. `playbooks` starts
    nested ones. `masked` takes secrets out of a text: all that leaves is masked anyway, but a secret that a tool has
    cut or changed can no longer be recognised, so it masks before it does so (KEY-06). `now` is the
    worker's clock. `provider_stand_ins` are the operator's stand-ins for providers (QNT-03), `policy` is what the
    playbook says of the whole kind (QNT-06); `remark` tells something of the task run besides its outcome, as an event
    of its own. `unwanted` is where a tool leaves, by names of its own, what ends things it has begun elsewhere: it is
    called if nobody wants the order any more while they last (SRV-11). `traceparent` is the header by which another
    program learns which span it is called from, where what happens is told as a trace. `addresses` gives the addresses
    of a host that may be reached: a tool that opens a connection asks it first, and connects to what it was given.
    `printed` takes what the task prints, as it is read, for those who look while it runs; None where nobody can. It
    masks, and never waits. What the log keeps is the `stdout` of the outcome.
    """

    execution_id: str
    step: str
    task: str
    attempt: int
    task_run_id: str
    idempotency_key: str
    spec: Mapping[str, Any]
    name: Callable[[str], Any]
    resolve: Callable[[str], Mapping[str, Any]] | None = None
    secrets: Secrets | None = None
    data_folders: tuple[str, ...] = ()
    sandbox: bool = False
    allowed: frozenset[str] = frozenset()
    keep: Callable[[Any], Reference] | None = None
    load: Callable[[Reference], Any] | None = None
    tool: Callable[[str], Tool] | None = None
    playbooks: Playbooks | None = None
    masked: Callable[[str], str] = str
    now: Callable[[], float] = time.time
    provider_stand_ins: tuple[str, ...] = ()
    policy: Mapping[str, Any] = {}
    remark: Callable[..., None] = _nobody_listens
    traceparent: str | None = None
    addresses: AddressGuard = UNGUARDED
    unwanted: dict[str, Callable[[], Awaitable[Any]]] = {}
    printed: Printed | None = None


class Tool(Protocol):
    """One kind. One instance serves a worker for its whole life."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Do it once. Cancelled when its time is over: leave nothing running then."""

    async def close(self) -> None:
        """The worker ends: leave nothing behind."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        """The kind's words on an outcome it had no hand in (a timeout, a template error): present, and null."""
