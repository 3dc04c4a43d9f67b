"""The secret desk: requests are checked for what they name, workers get what their order reads (KEY-02, KEY-07).

It keeps nothing, writes nothing, and answers only the holder of a lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.engine.execution import Execution
from noetl.errors import ToolError
from noetl.net.net import KeychainEntry, Net
from noetl.pipeline.keychain_entries import UNRESOLVED, filled
from noetl.pipeline.patches import overlaid
from noetl.pipeline.secret_grants import grants_of
from noetl.pipeline.secret_reads import auth_names
from noetl.records.materials import Ask, Material
from noetl.records.outcomes import Error

if TYPE_CHECKING:
    from noetl.keychain.keychain import Keychain

_CODE = "E_KEYCHAIN"


class SecretRefusedError(ToolError):
    """It is not for who asks; operators want to know of that."""


class SecretDesk:
    """`open_keychain` is called when a secret is first needed; most playbooks need none."""

    def __init__(self, open_keychain: Callable[[], Keychain] | None) -> None:
        self._open = open_keychain
        self._opened: Keychain | None = None
        self._needs_none: Net | None = None  # the last net that names no secret: a crowd is looked at once

    async def refusal(self, net: Net, payload: dict[str, Any]) -> Error | None:
        """Why a request for `net` ends before it begins: a name that nothing here resolves (KEY-02, VAL-21)."""
        if net is self._needs_none:
            return None
        names = auth_names(net)
        if not net.keychain and not names:
            self._needs_none = net
            return None
        try:
            entries = filled(net.keychain, overlaid(net.workload, payload)) if net.keychain else ()
            problem = await self._keychain().missing(entries, names)
        except ToolError as nothing_here:
            problem = nothing_here
        if problem is None:
            return None
        return Error(kind=problem.kind, message=problem.message, code=_CODE)

    async def answer(self, ask: Ask, net: Net, execution: Execution) -> Material:
        """What is asked for. ToolError `keychain.unresolved` says why not."""
        lease = execution.lease_of(ask.order_id)
        if lease is None or (lease.lease_epoch, lease.worker_id) != (ask.lease_epoch, ask.worker_id):
            raise SecretRefusedError(UNRESOLVED, f'"{ask.name}" is not given out: the order is no longer held')
        if not _is_named(ask, net, execution):
            raise SecretRefusedError(UNRESOLVED, f'"{ask.name}" is not given out: no task of this step names it')
        keychain, entries = self._keychain(), filled(net.keychain, execution.workload)
        if ask.renew:
            return await keychain.refreshed(entries, ask.name)
        if ask.kind or ask.lookup:
            entry = KeychainEntry(name=ask.name, kind=ask.kind, lookup=ask.lookup)
            return await keychain.looked_up(entries, entry)
        return await keychain.material(entries, ask.name)

    def reopen(self) -> None:
        """The next secret is looked up with a keychain opened anew: its master keys are others now."""
        self._opened = None

    def _keychain(self) -> Keychain:
        if self._opened is None:
            if self._open is None:
                raise ToolError(UNRESOLVED, "there is no keychain here")
            self._opened = self._open()
        return self._opened


def _is_named(ask: Ask, net: Net, execution: Execution) -> bool:
    """Whether a task of the order's step names it, literally or by a template that it fits (RELIABILITY 2.2)."""
    run = execution.run_of(ask.order_id)
    step = next((one for one in net.transitions if run is not None and one.name == run.step), None)
    return step is not None and grants_of(step, net).allow(ask.name, ask.kind, ask.lookup)
