"""Two real servers on one PostgreSQL, and one execution between them: both decide on it at the same moments, and
reports come twice, late, in another order and to the other server (reliability.md §4.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import msgspec
import pytest

from noetl.client.administration_requests import make_token
from noetl.events.orders import Order, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.events.outcomes import TaskResult
from noetl.events.steps import ReportRefused, StepDone
from noetl.events.tokens import TokenClaimed
from tests.cluster.backends import Nats, Postgres
from tests.cluster.checkers import check
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, cluster
from tests.cluster.playbooks import ONE, WIDE
from tests.cluster.watching import ends_of
from tests.waiting import until

ITEMS, RACES = 30, 3
_ANSWERS = msgspec.json.Decoder(TurnAnswer)


@pytest.fixture
def broker() -> Iterator[Nats]:
    started = Nats()
    yield started
    started.stop()


@pytest.mark.req("SRV-12", "WRK-01", "EVT-01")
def test_two_servers_race_on_one_execution_and_every_item_counts_once(
    tmp_path: Path, postgres: Postgres, effects: Effects, broker: Nats
) -> None:
    """Each server has a worker of its own, and each worker has items of the same loop: none of them ends before both
    have some, and neither has slots for all that may be in flight."""
    raced = WIDE.replace("max_in_flight: 2", "max_in_flight: 8")
    with cluster(tmp_path, postgres.url, nats=broker.url, ttl_s=30.0) as grounds:
        for number in range(2):
            grounds.server()
            if number == 0:
                grounds.register(raced)
            grounds.worker(number, "--concurrency", "2")
        starts = Starts(grounds)
        for number in range(RACES):
            effects.gate.clear()
            one = starts.start("cluster/wide", {"url": effects.url}, key=f"race/{number}", first=number)
            until(partial(_both_are_at_it, grounds, one))
            effects.gate.set()
            assert ends_of(grounds, [one]) == ["completed"]

        check(grounds.db, starts.accepted, effects.counts)
    assert effects.total() == RACES * (ITEMS + 1), "no lease was lost, so nothing was done twice"


def _both_are_at_it(grounds: Cluster, execution_id: str) -> bool:
    """Whether each worker has claimed something of it."""
    with grounds.client() as client:
        events = client.event_page(execution_id).events
    claims = [event["payload"] for event in events if event["event_type"] == TokenClaimed.event_type]
    return len({claim["worker_id"] for claim in claims}) == 2


class RudeWorker:
    """Speaks the protocol by hand, to whichever server it likes."""

    def __init__(self, grounds: Cluster, name: str) -> None:
        with grounds.client() as client:
            made = client.send(make_token({"subject": name, "role": "worker", "pools": ["default"]}))
        self._headers = {"authorization": f"Bearer {made.token}", "noetl-protocol": "1"}
        self._urls = grounds.urls
        known = httpx2.post(f"{self._urls[0]}/api/workers", json={"name": name}, headers=self._headers, timeout=60)
        assert known.is_success, known.text
        self.worker_id = known.json()["worker_id"]

    def turn(self, server: int, *reports: Report, capacity: int = 0, wait_s: float = 0.0) -> TurnAnswer:
        body = msgspec.json.encode(Turn(worker_id=self.worker_id, capacity=capacity, reports=reports, holding={}))
        url = f"{self._urls[server]}/api/orders/turn?wait_s={wait_s}"
        answer = httpx2.post(
            url, content=body, headers={**self._headers, "content-type": "application/json"}, timeout=60
        )
        assert answer.is_success, answer.text
        return _ANSWERS.decode(answer.content)

    def claim(self, server: int) -> Order:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if orders := self.turn(server, capacity=1, wait_s=1.0).orders:
                return orders[0]
        raise AssertionError("no order came")

    def done(self, order: Order) -> Report:
        return Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id=self.worker_id,
            entries=(Timed(0.0, StepDone(result=TaskResult())),),
        )


@pytest.mark.req("WRK-03", "WRK-04", "EVT-06", "SRV-12")
def test_duplicated_late_and_reordered_reports_to_two_servers_count_once(tmp_path: Path, postgres: Postgres) -> None:
    with cluster(tmp_path, postgres.url, ttl_s=2.0) as grounds:
        grounds.server()
        grounds.server()
        grounds.register(ONE)
        starts, first, second = Starts(grounds), RudeWorker(grounds, "first"), RudeWorker(grounds, "second")
        execution_id = starts.start("cluster/one", {}, key="one")
        done = first.done(first.claim(0))

        verdicts = [first.turn(number % 2, done, done).verdicts for number in range(20)]
        assert verdicts[0] == (ReportResult.ACCEPTED, ReportResult.DUPLICATE)
        assert set(verdicts[1:]) == {(ReportResult.DUPLICATE, ReportResult.DUPLICATE)}

        late = first.claim(1)
        again = second.claim(0)  # once the lease has run out
        assert (again.order_id, again.lease_epoch) == (late.order_id, late.lease_epoch + 1)
        assert first.turn(1, first.done(late), done).verdicts == (ReportResult.FENCED, ReportResult.DUPLICATE), (
            "reordered too"
        )
        assert second.turn(1, second.done(again)).verdicts == (ReportResult.ACCEPTED,)

        assert ends_of(grounds, [execution_id]) == ["completed"]
        assert first.turn(0, first.done(late)).verdicts == (ReportResult.TERMINAL,)
        log = check(grounds.db, starts.accepted)[execution_id]
    assert sum(isinstance(event.payload, StepDone) for event in log) == 2
    assert sum(isinstance(event.payload, ReportRefused) for event in log) >= 1
