"""Input from workers over a network is validated (SRV-04)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.events.orders import Report, Timed, Turn, _read_warily, read_turn
from noetl.events.outcomes import Meta, Outcome, Status, TaskResult
from noetl.events.steps import StepDone
from noetl.events.tasks import Decided, TaskProcessed

META = Meta(attempt=1, started_at=1.0, finished_at=2.0, trace_id="t", task_run_id="r")
PROCESSED = TaskProcessed(
    task="a",
    visit=1,
    attempt=1,
    task_run_id="r",
    outcome=Outcome(status=Status.SUCCESS, meta=META, result={"next": "data may say next", "surplus": 1}),
    decision=Decided(rule=0, do="continue", next="b"),
)
REPORT = Report(
    order_id="o1",
    execution_id="x1",
    lease_epoch=1,
    worker_id="w1",
    entries=(Timed(1.0, PROCESSED), Timed(2.0, StepDone(result=TaskResult(result=1)))),
)
TURN = Turn(worker_id="w1", reports=(REPORT,), capacity=2)


def as_sent() -> Any:
    return msgspec.json.decode(msgspec.json.encode(TURN))


def test_a_valid_turn_is_decoded_unchanged() -> None:
    assert read_turn(msgspec.json.encode(TURN)) == TURN


@pytest.mark.req("SRV-04")
@pytest.mark.parametrize(
    ("where", "surplus"),
    [
        ((), ("next",)),
        (("entries", 1, "entry"), ("entries.1.entry.next",)),
        (("entries", 0, "entry", "decision"), ("entries.0.entry.decision.step",)),
        (("entries", 0, "entry", "outcome", "meta"), ("entries.0.entry.outcome.meta.step",)),
    ],
)
def test_an_unknown_field_of_a_report_is_named_at_any_depth(where: tuple[Any, ...], surplus: tuple[str]) -> None:
    sent = as_sent()
    place = sent["reports"][0]
    for part in where:
        place = place[part]
    place[surplus[0].rpartition(".")[2]] = "somewhere"

    [report] = read_turn(msgspec.json.encode(sent)).reports

    assert report.surplus == surplus
    assert report.entries == REPORT.entries


def test_a_worker_cannot_set_the_surplus_field() -> None:
    sent = as_sent()
    sent["reports"][0]["surplus"] = ["nothing"]

    assert read_turn(msgspec.json.encode(sent)).reports[0].surplus == ("surplus",)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"worker_id": 1}', b'{"worker_id": "w", "reports": [1]}'])
def test_an_invalid_turn_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_turn(body)


@pytest.mark.req("SRV-04")
def test_the_fast_and_the_strict_decoder_read_a_valid_turn_alike() -> None:
    body = msgspec.json.encode(Turn(worker_id="w1", reports=(REPORT,), capacity=2))

    assert read_turn(body) == _read_warily(body) == Turn(worker_id="w1", reports=(REPORT,), capacity=2)


@pytest.mark.req("SRV-04")
def test_a_report_with_a_server_side_field_is_flagged() -> None:
    """It is written as it would be read, and still not honest."""
    forged = msgspec.structs.replace(REPORT, surplus=("next",))

    [read] = read_turn(msgspec.json.encode(Turn(worker_id="w1", reports=(forged,)))).reports

    assert read.surplus == ("surplus",)
