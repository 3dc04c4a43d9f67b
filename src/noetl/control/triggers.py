"""Triggers at work: every trigger of the store is polled by one server at a time, beside the others.

Each item starts exactly one execution (`trigger_turns`). Triggers are looked for in the store every few seconds. A
trigger that hangs or fails holds up no other one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from noetl.base.clock import Clock
from noetl.base.errors import NoetlError, Outage, ToolError, log_failure
from noetl.base.redaction import Redactor
from noetl.control.trigger_turns import TriggerReader, TriggerStarter, TriggerStore, TriggerTurns
from noetl.events.secret_materials import secrets_in
from noetl.events.triggers import SourceTrigger
from noetl.store.contract import Store
from noetl.tools import contract
from noetl.tools.registry import Registry

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain


LOOK_S = 2.0  # other processes create and pause triggers in the store without a wake-up to this one
HELD_S = 60.0  # another server takes over after this time
LONGEST_WAIT_S = 20.0  # in a source that supports waiting: less than HELD_S, so that the lease is renewed in time

_log = logging.getLogger(__name__)


class Triggers:
    def __init__(
        self, store: Store, starter: TriggerStarter, reader: TriggerReader, clock: Clock, *, server_id: str
    ) -> None:
        self._turns = TriggerTurns(store, starter, reader, clock)
        self._triggers = TriggerStore(store.key_values)
        self._clock, self._server_id = clock, server_id
        # With the definition that the task was started with: when the stored one differs, the task is replaced.
        self._polling: dict[str, tuple[SourceTrigger, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        """Poll all triggers, until cancelled."""
        outage = Outage(_log, "triggers were not looked at", "triggers are looked at again")
        try:
            while True:
                try:
                    await self.attend()
                    outage.worked()
                except NoetlError as problem:  # an unreachable store, for example: try again
                    outage.failed(problem)
                await asyncio.sleep(LOOK_S)
        finally:
            await self._end(list(self._polling))

    async def attend(self) -> None:
        """Begin polling new triggers, and end it for those that are paused, changed or gone."""
        wanted = {one.trigger_id: one for one in await self._triggers.triggers() if not one.paused}
        old = [key for key, (trigger, task) in self._polling.items() if wanted.get(key) != trigger or task.done()]
        await self._end(old)
        for key, trigger in wanted.items():
            if key not in self._polling:
                self._polling[key] = trigger, asyncio.create_task(self._poll(trigger), name=f"trigger {trigger.name}")

    async def _end(self, trigger_ids: list[str]) -> None:
        ending = [self._polling.pop(key) for key in trigger_ids]
        for _, task in ending:
            task.cancel()
        # Waited for before the leases are given back: another server would begin while this one still starts
        # executions.
        await asyncio.gather(*(task for _, task in ending), return_exceptions=True)
        for trigger, _ in ending:
            with suppress(NoetlError):  # the lease expires by itself
                await self._triggers.leave(trigger, self._server_id)

    async def _poll(self, trigger: SourceTrigger) -> None:
        while True:
            wait_s = LOOK_S
            try:
                now = self._clock.now()
                if await self._triggers.is_polled_by(trigger, self._server_id, now=now, for_s=HELD_S):
                    wait_s = await self._turn(trigger)
            except Exception as problem:  # any error: one broken trigger must not stop the others
                log_failure(_log, problem, "trigger %s was not polled", trigger.name)
            await asyncio.sleep(wait_s)

    async def _turn(self, trigger: SourceTrigger) -> float:
        """The seconds until the next poll, less the time spent waiting in the source."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        wait_s = await self._turns.turn(trigger, wait_s=min(trigger.interval_s, LONGEST_WAIT_S))
        return max(0.0, wait_s - (loop.time() - began)) if wait_s else 0.0


# Reads the sources of triggers with the tools of this server, and with the credentials that the triggers name.
TIMEOUT_S = 60.0  # of one poll, in addition to its waiting time
_NOTHING = Redactor(())


class SourceReader:
    """`keychain` returns the current keychain of this server, None if there is none."""

    def __init__(self, tools: Registry, keychain: Callable[[], Keychain | None]) -> None:
        self._tools, self._keychain = tools, keychain

    async def poll(self, trigger: SourceTrigger, poll: contract.TriggerPoll) -> contract.TriggerBatch:
        """The new items. ToolError says why they cannot be read, without secrets."""
        fields, redactor = await self._credential(trigger)
        try:
            async with asyncio.timeout(poll.wait_s + TIMEOUT_S):
                return await self._source(trigger).poll(trigger.inputs, poll, self._context(trigger, fields))
        except TimeoutError:
            raise ToolError("timeout", f"its source gave no answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            code = f" ({problem.details['code']})" if problem.details.get("code") else ""
            raise ToolError(problem.kind, redactor.text(problem.message) + code) from None
        except Exception as problem:  # of a plug-in; its message may hold secrets
            raise ToolError("tool.exception", f"its source failed with {type(problem).__name__}") from None

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[contract.TriggerItem], returned: Sequence[contract.TriggerItem]
    ) -> None:
        """Settle items with a source that delivers them: accepted or returned."""
        source = self._source(trigger)
        if not hasattr(source, "settle") or not (accepted or returned):
            return
        fields, redactor = await self._credential(trigger)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                settling = cast(contract.SettlingSource, source)
                await settling.settle(trigger.inputs, accepted, returned, self._context(trigger, fields))
        except TimeoutError:
            raise ToolError("timeout", f"its source did not accept the answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            raise ToolError(problem.kind, redactor.text(problem.message)) from None

    async def close(self) -> None:
        await self._tools.close()

    def _source(self, trigger: SourceTrigger) -> contract.TriggerSource:
        tool = self._tools.tool(trigger.kind)
        if not hasattr(tool, "poll"):
            raise ToolError("tool.not_allowed", f'the tool "{trigger.kind}" cannot be polled')
        return cast(contract.TriggerSource, tool)

    async def _credential(self, trigger: SourceTrigger) -> tuple[Mapping[str, Any], Redactor]:
        """The fields of the credential that the trigger names, and their mask."""
        name, keychain = trigger.inputs.get("auth"), self._keychain()
        if name is None:
            return {}, _NOTHING
        if keychain is None:
            raise ToolError("keychain.unresolved", f'the credential "{name}" is not known here')
        material = await keychain.material((), str(name))
        return material.fields, Redactor(secrets_in(material))

    def _context(self, trigger: SourceTrigger, fields: Mapping[str, Any]) -> contract.ToolContext:
        owner = f"trigger {trigger.trigger_id}"
        return contract.ToolContext(
            task_run=contract.TaskRunIdentity(
                execution_id=owner,
                step="trigger",
                task=trigger.name,
                attempt=1,
                task_run_id=owner,
                idempotency_key=owner,
            ),
            spec={},
            name=lambda _: contract.UNKNOWN,
            resolve=lambda _: fields,
            permissions=contract.ToolPermissions(data_folders=self._tools.permissions.data_folders),
            tool=self._tools.tool,
            addresses=self._tools.addresses,
        )
