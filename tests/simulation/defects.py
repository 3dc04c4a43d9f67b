"""Defects that once were there, put back: each takes out one mechanism, so that a simulation can show it finds it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.base.ids import derived
from noetl.engine import decide, evolve, reports
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.engine.execution import Execution
from noetl.events.orders import Report
from noetl.events.steps import ReportRefused
from noetl.worker import server_connection
from noetl.worker.http1 import Reply
from noetl.worker.leases import HeldLeases
from noetl.worker.order_context import OrderContext
from noetl.worker.server_connection import ServerConnection


def tasks_begin_under_old_leases(patch: pytest.MonkeyPatch) -> None:
    """A worker that wakes goes on where it stood."""

    async def confirm_lease(place: OrderContext) -> None:
        return None

    patch.setattr(OrderContext, "confirm_lease", confirm_lease)


def repeated_requests_say_nothing_more(patch: pytest.MonkeyPatch) -> None:
    """What is sent again is what was sent before, byte for byte, on a kept connection at least."""
    ask = ServerConnection.ask

    async def without(self: ServerConnection, method: str, path: str, **how: Any) -> Reply:
        return await ask(self, method, path, **{**how, "again": None})

    patch.setattr(server_connection.ServerConnection, "ask", without)


def refusals_are_recorded_each_time(patch: pytest.MonkeyPatch) -> None:
    """The execution forgets what it has refused, and each refusal has an id of its own."""
    refused = reports._refused

    def forgetful(execution: Execution, command: RecordReport, *more: Any) -> Decision:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(reports, "derived", lambda *parts: derived(*parts, execution.seq))
            return refused(execution, command, *more)

    patch.setattr(reports, "_refused", forgetful)
    patch.setitem(evolve.ROOMS, ReportRefused, evolve._pass_by)


def reports_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Whoever reports is taken for the holder of the order."""
    record = reports.record

    def trusting(plan: Any, execution: Execution, command: RecordReport) -> Decision:
        lease = execution.lease_of(command.report.order_id)
        if lease is not None:
            report: Report = msgspec.structs.replace(
                command.report, lease_epoch=lease.lease_epoch, worker_id=lease.worker_id or ""
            )
            command = msgspec.structs.replace(command, report=report)
        return record(plan, execution, command)

    patch.setattr(decide, "record", trusting)


def orders_are_run_as_often_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """An order that is handed out again is run again by the worker that has it."""
    patch.setattr(HeldLeases, "add_if_new", lambda self, order_id, epoch: True)
