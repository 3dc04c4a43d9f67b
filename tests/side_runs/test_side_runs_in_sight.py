"""What is told of side runs that run: why they wait, under which lease, and when they are tried again (TOK-01)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.base.clock import rfc3339
from noetl.control.views.token_views import SideRunView, side_run_sentences, side_runs_of, tokens_of
from noetl.control.views.token_views import sentences_of as all_sentences
from noetl.engine.commands import InjectEvent
from noetl.events.outcomes import Error
from noetl.events.tasks import TaskProcessed
from noetl.store.contract import OrderRow, OrderState
from tests.engine_script import Conversation
from tests.side_runs.handled_playbook import talk_of
from tests.side_runs.sagas import ORDER, undoing


def orders(talk: Conversation) -> list[OrderRow]:
    """As the store would have them; leases last for 30 seconds."""
    runs = [talk.execution.runs[run_id] for run_id in talk.execution.order_states.open.values()]
    return [
        OrderRow(
            order_id=run.lease.order_id or "",
            execution_id="x1",
            step_run_id=run.step_run_id,
            state=OrderState.LEASED if run.lease.lease_epoch else OrderState.READY,
            lease_owner=run.lease.worker_id,
            lease_epoch=run.lease.lease_epoch,
            lease_until=talk.clock.now() + 30 if run.lease.lease_epoch else None,
        )
        for run in runs
    ]


def views(talk: Conversation) -> list[SideRunView]:
    return side_runs_of(talk.execution, orders(talk), talk.clock.now())


@pytest.mark.req("SAGA-02", "TOK-01")
def test_a_compensation_is_listed_with_those_after_it() -> None:
    talk = undoing()
    charge, start = views(talk)

    assert (charge.kind, charge.step, charge.state, charge.task) == (
        "compensation",
        "charge",
        "queued",
        "charge_compensate",
    )
    assert (start.kind, start.step, start.state, start.step_run_id) == ("compensation", "start", "pending", None)
    assert charge.started_at == rfc3339(talk.clock.now())
    queued, after = side_run_sentences([charge, start])
    assert queued.endswith('task charge_compensate is queued: it waits for a worker of the pool "default" to take it')
    assert after == "to be undone after that, in this order: start"


@pytest.mark.req("SAGA-03", "TOK-01")
def test_a_running_compensation_is_listed_with_its_lease_and_retry() -> None:
    talk = undoing()
    talk.claim("undo")
    [running, _] = views(talk)
    until = rfc3339(talk.clock.now() + 30)
    assert (running.state, running.worker_id, running.lease_until) == ("running", "w1", until)
    assert running.waits_for == f"worker w1 to report (lease 1, which ends at {until})"

    broken = Error(kind="py.exception", message="it broke")
    [started, processed] = talk.task("undo", error=broken, do="retry", delay_s=60.0, next="charge_compensate")
    assert isinstance(processed, TaskProcessed)
    tolerant = msgspec.structs.replace(processed.decision, error=None)
    talk.report(talk.report_of("undo", started, msgspec.structs.replace(processed, decision=tolerant)))
    [again, _] = views(talk)

    due = rfc3339(talk.clock.now() + 60)
    assert (again.state, again.attempt, again.retry_at) == ("retrying", 2, due)
    [first, *_] = all_sentences(talk.execution, tokens_of(talk.execution, [], [], [], talk.clock.now()), views(talk))
    assert first == (
        "the compensation of step charge, task charge_compensate, attempt 2 is retrying: "
        f"it waits for its next attempt, due at {due}"
    )
    talk.clock.advance(61)
    assert views(talk)[0].state == "running"


def test_a_handler_is_listed_with_its_event_and_step() -> None:
    talk = talk_of()
    talk.tell(InjectEvent(at=talk.clock.now(), name="audit.required", data={"who": "ann"}))

    [handler] = views(talk)

    assert (handler.kind, handler.event, handler.task) == ("handler", "audit.required", "audit")
    assert (handler.owner, handler.interrupting) == (talk.names["start#1"], False)
    assert side_run_sentences([handler])[0].startswith(
        'the handler of step start for "audit.required", task audit is queued'
    )


def test_very_many_side_runs_are_counted() -> None:
    one = SideRunView(kind="async", step="s", state="running", waits_for="worker w to report", task="t")

    told = side_run_sentences([one] * 25)

    assert told[0] == "an asynchronous task of step s, task t is running: it waits for worker w to report"
    assert (len(told), told[-1]) == (21, "5 more run beside the tokens")


def test_an_execution_without_side_runs_has_none() -> None:
    talk = Conversation(ORDER)
    talk.start()

    assert views(talk) == []
