"""Calls of nested playbooks, for one task run: asked of the control plane under the order's lease, its slot lent
meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from noetl.base.errors import ToolError
from noetl.events.orders import PlaybookCall, PlaybookCallResult

if TYPE_CHECKING:
    from noetl.worker.order_context import OrderContext

Lend = Callable[[], AbstractAsyncContextManager[None]]  # while it is entered, the slot works on something else


def keep_slot() -> AbstractAsyncContextManager[None]:
    """For those who have no slots to lend."""
    return nullcontext()


class TaskCalls:
    """The children of one task run (`tools.contract.Playbooks`)."""

    __slots__ = ("_called", "_place", "_task_run_id")

    def __init__(self, place: OrderContext, task_run_id: str) -> None:
        self._place, self._task_run_id = place, task_run_id
        # The last call, for `give_up`: it must name the same lease and task run.
        self._called: PlaybookCall | None = None

    async def call(
        self, path: str, *, version: str | None, payload: dict[str, Any], return_step: str | None, wait: bool
    ) -> PlaybookCallResult:
        """Start the child, or find it again, and wait for its end if `wait`."""
        if self._place.writer.holds_secret([path, version, payload]):  # a payload is recorded (KEY-06)
            raise ToolError(
                "playbook.failed",
                "args hold a secret, and what a child is started with is recorded: "
                "name it in the child's own keychain, or look it up there with a secrets task",
                child_status="refused",
            )
        return await self._ask(path=path, version=version, payload=payload, return_step=return_step, wait=wait)

    async def compensate(self, execution_id: str) -> PlaybookCallResult:
        """Undo what a child had registered: in an execution of its own, which is found again like any child."""
        return await self._ask(path="", compensates=execution_id)

    async def _ask(self, **wanted: Any) -> PlaybookCallResult:
        """Under the order's lease; the slot is lent for as long as somebody waits."""
        place, order = self._place, self._place.order
        await place.flush()  # the server looks which task the order stands at, before it starts anything for it
        self._called = call = PlaybookCall(
            execution_id=order.execution_id,
            step_run_id=order.step_run_id,
            order_id=order.order_id,
            worker_id=place.worker_id,
            lease_epoch=order.lease_epoch,
            task_run_id=self._task_run_id,
            **wanted,
        )
        async with place.lend() if call.wait else keep_slot():
            return await place.control_plane.call(call)

    async def give_up(self, reason: str) -> None:
        """Nobody waits for the child any more: it is cancelled."""
        if self._called is not None:
            await self._place.control_plane.give_up(self._called, reason)
