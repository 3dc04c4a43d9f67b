"""Reads the sources of triggers with the tools of this server, and with the credentials that the triggers name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from noetl.base.errors import ToolError
from noetl.base.redaction import Redactor
from noetl.events.secret_materials import secrets_in
from noetl.events.triggers import SourceTrigger
from noetl.tools.contract import UNKNOWN, ToolContext
from noetl.tools.registry import Registry
from noetl.tools.trigger_source import SettlingSource, TriggerBatch, TriggerItem, TriggerPoll, TriggerSource

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain

TIMEOUT_S = 60.0  # of one poll, besides what it may wait
_NOTHING = Redactor(())


class SourceReader:
    """`keychain` gives that of this server as it is now, None where there is none."""

    def __init__(self, tools: Registry, keychain: Callable[[], Keychain | None]) -> None:
        self._tools, self._keychain = tools, keychain

    async def poll(self, trigger: SourceTrigger, poll: TriggerPoll) -> TriggerBatch:
        """What is new. ToolError says why it cannot be told, without secrets."""
        fields, redactor = await self._credential(trigger)
        try:
            async with asyncio.timeout(poll.wait_s + TIMEOUT_S):
                return await self._source(trigger).poll(trigger.inputs, poll, self._context(trigger, fields))
        except TimeoutError:
            raise ToolError("timeout", f"its source gave no answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            code = f" ({problem.details['code']})" if problem.details.get("code") else ""
            raise ToolError(problem.kind, redactor.text(problem.message) + code) from None
        except Exception as problem:  # a plug-in's; its words may hold what it found
            raise ToolError("tool.exception", f"its source failed with {type(problem).__name__}") from None

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]
    ) -> None:
        """Tell a source that hands its items out what became of them."""
        source = self._source(trigger)
        if not hasattr(source, "settle") or not (accepted or returned):
            return
        fields, redactor = await self._credential(trigger)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                settling = cast(SettlingSource, source)
                await settling.settle(trigger.inputs, accepted, returned, self._context(trigger, fields))
        except TimeoutError:
            raise ToolError("timeout", f"its source took no answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            raise ToolError(problem.kind, redactor.text(problem.message)) from None

    async def close(self) -> None:
        await self._tools.close()

    def _source(self, trigger: SourceTrigger) -> TriggerSource:
        tool = self._tools.tool(trigger.kind)
        if not hasattr(tool, "poll"):
            raise ToolError("tool.not_allowed", f'the tool "{trigger.kind}" cannot be polled')
        return cast(TriggerSource, tool)

    async def _credential(self, trigger: SourceTrigger) -> tuple[Mapping[str, Any], Redactor]:
        """The fields of the credential that the trigger names, and what masks them."""
        name, keychain = trigger.inputs.get("auth"), self._keychain()
        if name is None:
            return {}, _NOTHING
        if keychain is None:
            raise ToolError("keychain.unresolved", f'the credential "{name}" is not known here')
        material = await keychain.material((), str(name))
        return material.fields, Redactor(secrets_in(material))

    def _context(self, trigger: SourceTrigger, fields: Mapping[str, Any]) -> ToolContext:
        owner = f"trigger {trigger.trigger_id}"
        return ToolContext(
            execution_id=owner,
            step="trigger",
            task=trigger.name,
            attempt=1,
            task_run_id=owner,
            idempotency_key=owner,
            spec={},
            name=lambda _: UNKNOWN,
            resolve=lambda _: fields,
            data_folders=self._tools.permissions.data_folders,
            tool=self._tools.tool,
            addresses=self._tools.addresses,
        )
