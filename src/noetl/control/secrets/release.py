"""Secret release: checks that requests can resolve their secrets, and gives workers those that their order reads
(KEY-02, KEY-07).

It stores nothing, and answers only the holder of a lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from noetl.base.errors import ToolError
from noetl.control.claiming.orders import ctx_of, events_until_claim
from noetl.control.secrets.scopes import SecretScopes, reads_ctx
from noetl.engine.execution import Execution, StepLease, StepRun
from noetl.engine.loops.state import Range
from noetl.engine.pipeline.scopes import Load
from noetl.engine.pipeline.secret_grants import UNRESOLVED, Grants, Naming, filled_entries, naming_of
from noetl.engine.plan import Plan
from noetl.events.envelope import Event
from noetl.events.outcomes import Error
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import KeychainEntry, Net
from noetl.net.secret_reads import auth_names
from noetl.store.contract import Store
from noetl.templates.values import deep_merged
from noetl.tools.registry import credential_inputs

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain

_CODE = "E_KEYCHAIN"


class SecretRefusedError(ToolError):
    """The caller may not read this secret. The server counts and logs it for operators."""


Look = Callable[[Load], bool]


class Past(msgspec.Struct, frozen=True):
    """The recorded state of an execution; `read` calls a function with the stored values that it reads in memory."""

    store: Store
    read: Callable[[Look], Awaitable[bool]]

    async def until_claim(self, ask: Ask) -> list[Event]:
        return await events_until_claim(self.store, ask.execution_id, ask.order_id, ask.lease_epoch)


class SecretRelease:
    """`open_keychain` is called when a secret is first needed; most playbooks need none."""

    def __init__(self, open_keychain: Callable[[], Keychain] | None) -> None:
        self._open = open_keychain
        self._opened: Keychain | None = None
        self._needs_none: Net | None = None  # the last net that names no secret: many starts of it are checked once
        # Stored with the plan: entries elsewhere would never be removed.
        self._namings: WeakKeyDictionary[Plan, dict[str, Naming]] = WeakKeyDictionary()

    async def refusal(self, net: Net, payload: dict[str, Any]) -> Error | None:
        """Why `net` cannot be started: a name that nothing here resolves (KEY-02, VAL-21)."""
        if net is self._needs_none:
            return None
        names = auth_names(net)
        if not net.keychain and not names:
            self._needs_none = net
            return None
        try:
            entries = filled_entries(net.keychain, deep_merged(net.workload, payload)) if net.keychain else ()
            problem = await self._keychain().missing(entries, names)
        except ToolError as nothing_here:
            problem = nothing_here
        if problem is None:
            return None
        return Error(kind=problem.kind, message=problem.message, code=_CODE)

    async def answer(self, ask: Ask, plan: Plan, execution: Execution, past: Past) -> tuple[KeychainEntry, Material]:
        """The secret, and how it is looked up. Raises ToolError `keychain.unresolved` with the reason."""
        # A worker that lost its lease gets no secret.
        if _holder(ask, execution) is None:
            raise SecretRefusedError(UNRESOLVED, f'"{ask.name}" is not released: the order is no longer held')
        if not await self._is_named(ask, plan, execution, past):
            raise SecretRefusedError(UNRESOLVED, f'"{ask.name}" is not released: no task of this step names it')
        keychain, entries = self._keychain(), filled_entries(plan.net.keychain, execution.origin.workload)
        declared = next((entry for entry in entries if entry.name == ask.name), None)
        entry = declared or KeychainEntry(name=ask.name, kind="credential")
        if ask.renew:
            return entry, await keychain.refreshed(entries, ask.name)
        if ask.kind or ask.lookup:
            asked = KeychainEntry(name=ask.name, kind=ask.kind, lookup=ask.lookup)
            return (asked if ask.kind else entry), await keychain.looked_up(entries, asked)
        return entry, await keychain.material(entries, ask.name)

    async def _is_named(self, ask: Ask, plan: Plan, execution: Execution, past: Past) -> bool:
        """Whether a task of the order's step names it, as far as the recorded state shows (reliability.md §2.2)."""
        run = execution.run_of(ask.order_id)
        if run is None:
            return False
        naming = self._naming(plan, run.step)
        declared = {entry.name for entry in plan.net.keychain}
        # `ctx` as it was at the claim: by now another branch may have written another name into it, which this order
        # was never given.
        events = await past.until_claim(ask) if reads_ctx(naming, execution.variables.ctx) else []

        def is_granted(load: Load) -> bool:
            if (held := _holder(ask, execution)) is None:
                return False  # it ended while a value was fetched
            scopes = SecretScopes(plan, execution, *held, ctx_of(events, load), load)
            return Grants(naming, declared, scopes.read).allow(ask.name, ask.kind, ask.lookup)

        # `read` calls it again after each stored value that had to be fetched, so it must not keep anything between
        # calls.
        return await past.read(is_granted)

    async def material(self, name: str) -> Material:
        """A stored credential, for a notice of this server. Raises ToolError `keychain.unresolved` with the reason."""
        return await self._keychain().material((), name)

    def _naming(self, plan: Plan, step: str) -> Naming:
        known = self._namings.setdefault(plan, {})
        if step not in known:
            known[step] = naming_of(plan.step(step), plan.net, credential_inputs)
        return known[step]

    def reopen(self) -> None:
        """Open the keychain again for the next secret: its master keys have changed."""
        self._opened = None

    def keychain(self) -> Keychain | None:
        """The keychain, None if there is none."""
        return self._keychain() if self._open is not None else None

    def _keychain(self) -> Keychain:
        if self._opened is None:
            if self._open is None:
                raise ToolError(UNRESOLVED, "there is no keychain here")
            self._opened = self._open()
        return self._opened


def _holder(ask: Ask, execution: Execution) -> tuple[StepRun, StepLease | Range] | None:
    """The step run of the order, and the caller's lease on it."""
    run, lease = execution.run_of(ask.order_id), execution.lease_of(ask.order_id)
    is_held = lease is not None and (lease.lease_epoch, lease.worker_id) == (ask.lease_epoch, ask.worker_id)
    return (run, lease) if run is not None and lease is not None and is_held else None
