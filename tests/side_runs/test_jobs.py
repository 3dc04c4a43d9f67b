"""Jobs that were submitted and are waited for elsewhere end with an execution that is cancelled or fails (SRV-11)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.control.claiming.orders import needs_of
from noetl.engine.commands import CancelExecution, ClaimOrder, Wake
from noetl.events.orders import SideRunOrder
from noetl.net.net import Net
from noetl.worker.order_context import order_tasks
from tests.engine_script import Conversation, net_of
from tests.worker.orders import an_order

POLLED = """
workflow:
  - step: start
    spec: {pool: "{{ workload.pool }}"}
    tool: {kind: quantum, circuit: [{gate: h, target: 0}], auth: "{{ ctx.account }}"}
    next: {arcs: [{step: wait}]}
  - {step: wait, timer: {duration: 1h}, next: {arcs: [{step: poll}]}}
  - step: poll
    tool: {kind: quantum, op: status, job_id: "{{ start.job_id }}"}
    next: {arcs: [{step: wait, when: "{{ poll.state == 'RUNNING' }}"}, {step: end}]}
  - {step: end, tool: {kind: python, code: x}}
workload: {pool: lab}
"""


def submitted(result: Any = None, text: str = POLLED) -> Conversation:
    talk = Conversation(text)
    talk.start()
    talk.done("start", result or {"job_id": "sim:1", "state": "QUEUED"}, set_ctx={"account": "ibm", "other": 1})
    return talk


def registered(talk: Conversation) -> list[tuple[str, str | None, str | None, dict[str, Any]]]:
    return [(one.step, one.job_id, one.pool, one.ctx) for one in talk.payloads("compensation.registered")]


def wake(talk: Conversation) -> None:
    """Its timer has run out."""
    talk.clock.advance(3600)
    talk.decide(Wake(at=talk.clock.now()))


def end_side_run(talk: Conversation) -> None:
    """Claim the compensation that is under way, and report that it has ended."""
    [run_id] = talk.execution.side_work.step_runs
    talk.names["side_run#1"] = run_id
    talk.done("side_run")


@pytest.mark.req("SRV-11", "QNT-02")
def test_an_unattended_job_is_cancelled_with_its_execution() -> None:
    talk = submitted()
    assert talk.payloads("compensation.registered") == []

    talk.cancel()

    assert registered(talk) == [("start", "sim:1", "lab", {"account": "ibm"})]
    assert [one.cause for one in talk.payloads("compensation.requested")] == ["end"]
    assert talk.status == "running"
    end_side_run(talk)
    assert talk.status == "cancelled"
    assert len(talk.payloads("compensation.done")) == 1


@pytest.mark.parametrize(
    ("result", "jobs"),
    [
        ({"job_id": "sim:1", "state": "RUNNING"}, ["sim:1"]),
        ({"job_id": "sim:1", "state": "DONE"}, []),
        ([{"job_id": "sim:1", "state": "QUEUED"}, None, {"job_id": "sim:2", "state": "ERROR"}], ["sim:1"]),
        ({"job_id": 5, "state": "QUEUED"}, []),
        ("text", []),
    ],
)
def test_the_log_determines_which_jobs_may_still_run(result: Any, jobs: list[str]) -> None:
    talk = submitted(result)

    talk.cancel()

    assert [one.job_id for one in talk.payloads("compensation.registered")] == jobs
    assert talk.status == ("running" if jobs else "cancelled")


def test_a_job_seen_ended_by_a_later_step_is_not_cancelled() -> None:
    talk = submitted()
    wake(talk)
    talk.done("poll", {"job_id": "sim:1", "state": "DONE"})

    talk.failed("end")

    assert talk.status == "failed"
    assert talk.payloads("compensation.registered") == []


def test_a_failing_execution_leaves_its_job_to_a_rerun() -> None:
    talk = submitted()
    wake(talk)
    talk.failed("poll", "quantum.job")

    assert talk.status == "failed"
    assert talk.payloads("compensation.registered") == []


def test_a_job_that_was_only_queried_is_not_cancelled() -> None:
    text = "workflow: [{step: start, tool: {kind: quantum, op: status, job_id: x}, next: {arcs: [{step: wait}]}}, "
    talk = submitted(text=text + "{step: wait, timer: {duration: 1h}}]")

    talk.cancel()

    assert talk.status == "cancelled"


def test_a_completed_execution_does_not_cancel_its_job() -> None:
    text = "workflow: [{step: start, tool: {kind: quantum, circuit: [{gate: h, target: 0}]}}]"

    assert submitted(text=text).status == "completed"


def test_a_second_cancel_waits_for_no_job() -> None:
    talk = submitted()
    talk.cancel()

    talk.cancel("at once")

    assert talk.status == "cancelled"
    assert [one.reason for one in talk.payloads("compensation.unknown")] == ["at once"]


def test_a_paused_execution_is_resumed_to_cancel_its_job() -> None:
    talk = submitted()
    talk.pause()

    talk.cancel()
    end_side_run(talk)

    assert talk.status == "cancelled"


@pytest.mark.parametrize(("compensate", "jobs"), [(True, [None]), (False, [None, "sim:1"])])
def test_an_authored_compensation_replaces_the_job_cancellation(compensate: bool, jobs: list[str | None]) -> None:
    own = 'compensate: {tool: {kind: quantum, op: cancel, job_id: "{{ result.job_id }}"}}\n    next'
    talk = submitted(text=POLLED.replace("next", own, 1))

    talk.tell(CancelExecution(at=talk.clock.now(), reason="asked for", compensate=compensate))
    end_side_run(talk)

    assert talk.status == "cancelled"
    assert [one.job_id for one in talk.payloads("compensation.registered")] == jobs


def test_a_worker_cancels_a_job_with_the_credential_of_its_submission() -> None:
    net: Net = net_of(POLLED)
    order = an_order("quantum", side_run=SideRunOrder(part="compensation", job_id="sim:{{ 1 }}"))

    [task] = order_tasks(net.transitions[0], order)

    assert (task.name, task.kind, task.inputs.data) == ("quantum", "quantum", {"auth": "{{ ctx.account }}"})
    assert task.verbatim == {"op": "cancel", "job_id": "sim:{{ 1 }}"}, "what a provider said is no template"


def test_a_job_cancellation_needs_a_worker_with_the_kind() -> None:
    talk = submitted()
    talk.cancel()
    [run_id] = talk.execution.side_work.step_runs
    order_id = talk.execution.runs[run_id].lease.order_id
    assert order_id is not None

    assert needs_of(talk.plan, talk.execution, order_id) == {"quantum"}
    claimed = talk.decide(ClaimOrder(at=talk.clock.now(), order_id=order_id, worker_id="w1", seen_epoch=0))
    assert [event.event_type for event in claimed.events] == ["order.claimed"]
