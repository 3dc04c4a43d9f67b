"""Earlier defects, put back: each removes one mechanism, to show that the simulation finds it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.base.ids import derived
from noetl.control.claiming.claims import OrderLeases
from noetl.engine import decide, evolve, reports
from noetl.engine.commands import RecordReport
from noetl.engine.decision import Decision
from noetl.engine.execution import Execution
from noetl.events.orders import Order, Report, Turn
from noetl.events.steps import ReportRefused
from noetl.server.problem_details import ProblemDetails
from noetl.server.routes import orders
from noetl.server.workers import WorkerRow
from noetl.worker import remote_control_plane, server_connection
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
    """A repeated request equals the first, byte for byte, at least on a kept connection."""
    ask = ServerConnection.ask

    async def without(self: ServerConnection, method: str, path: str, **how: Any) -> Reply:
        return await ask(self, method, path, **{**how, "again": None})

    patch.setattr(server_connection.ServerConnection, "ask", without)


def refusals_are_recorded_each_time(patch: pytest.MonkeyPatch) -> None:
    """The execution forgets what it has refused, and each refusal has an id of its own."""
    refused = reports._refusal

    def forgetful(execution: Execution, command: RecordReport, *more: Any) -> Decision:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(reports, "derived", lambda *parts: derived(*parts, execution.log.seq))
            return refused(execution, command, *more)

    patch.setattr(reports, "_refusal", forgetful)
    patch.setitem(evolve.HANDLERS, ReportRefused, evolve._ignore)


def reports_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Every reporter is treated as the holder of the order."""
    record = reports.record_report

    def trusting(plan: Any, execution: Execution, command: RecordReport) -> Decision:
        lease = execution.lease_of(command.report.order_id)
        if lease is not None:
            report: Report = msgspec.structs.replace(
                command.report, lease_epoch=lease.lease_epoch, worker_id=lease.worker_id or ""
            )
            command = msgspec.structs.replace(command, report=report)
        return record(plan, execution, command)

    patch.setattr(decide, "record_report", trusting)


def orders_are_run_as_often_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """An order that is handed out again is run again by the worker that has it."""
    patch.setattr(HeldLeases, "add_if_new", lambda self, order_id, epoch: True)


def orders_on_their_way_hide_others(patch: pytest.MonkeyPatch) -> None:
    """Only the repeated request says what is held, and gets no more orders than it asks for: one that is in another
    answer on its way takes the place of one that is lost."""
    unanswered_orders = OrderLeases.unanswered_orders

    async def as_many_as_asked_for(self: OrderLeases, turn: Turn) -> list[Order]:
        return (await unanswered_orders(self, turn))[: turn.capacity]

    patch.setattr(OrderLeases, "unanswered_orders", as_many_as_asked_for)
    patch.setattr(remote_control_plane, "DOUBT_S", 0.0001)


def workers_without_a_token_are_anybodys(patch: pytest.MonkeyPatch) -> None:
    """The worker in a server's own process has no token, which any token satisfies."""

    def trusting(row: WorkerRow, token_id: str) -> None:
        if row.token_id and row.token_id != token_id:
            raise ProblemDetails(403, "this worker id belongs to another token", kind="identity")

    patch.setattr(orders, "check_own", trusting)
