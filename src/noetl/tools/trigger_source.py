"""Trigger sources: tools that find what is new, so that a playbook can be started for each of it.

A tool that is one has the method `poll`, and its kind has `trigger` (`noetl.net.kinds`). Tools of plug-ins are found
in the same way. A source does not remember what it gave: the cursor is kept by whoever polls, and moves on only after
every item of a batch has its execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from noetl.tools.contract import ToolContext


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
