"""Many clients that want something of one server at the same moment, in one process. They wait no longer than the
server asks for (reliability.md §4.2).

The workers of it run nothing: an order that one of them is given has ended well with its next turn.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec

from noetl.events.orders import Order, Report, Timed, Turn, TurnAnswer
from noetl.events.outcomes import TaskResult
from noetl.events.steps import StepDone

POLITE = (429, 503)  # with Retry-After
_ANSWERS = msgspec.json.Decoder(TurnAnswer)


class Herd:
    """`statuses` counts all answers, `rude` are those that no client should ever see."""

    def __init__(self, url: str, token: str, worker_token: str) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx2.AsyncClient(base_url=url, timeout=60, limits=limits)
        self._tokens = {"start": token, "turn": worker_token}
        self.statuses: Counter[int] = Counter()
        self.rude: list[str] = []
        self.lost: Counter[str] = Counter()  # unanswered requests, by error of the driver
        self.accepted: dict[str, str] = {}
        self.turns: Counter[str] = Counter()  # by worker, since it was last emptied

    async def close(self) -> None:
        await self._http.aclose()

    async def start_all(self, path: str, number: int, *, name: str) -> None:
        await asyncio.gather(*(self._start(path, f"{name}/{one}") for one in range(number)))

    async def _start(self, path: str, key: str) -> None:
        body, headers = {"path": path, "payload": {}}, {"idempotency-key": key}
        while True:
            answer = await self._asked("start", "/api/executions", msgspec.json.encode(body), headers)
            if answer is not None:
                self.accepted[answer.json()["execution_id"]] = key
                return

    async def work(self, name: str) -> None:
        """Until it is cancelled."""
        reports: tuple[Report, ...] = ()
        headers = {"noetl-protocol": "1"}
        announced = msgspec.json.encode({"name": name})
        while (known := await self._asked("turn", "/api/workers", announced, headers)) is None:
            pass
        worker_id = known.json()["worker_id"]
        while True:
            turn = Turn(worker_id=worker_id, capacity=2, reports=reports, holding={})
            wanted = f"/api/orders/turn?wait_s={random.uniform(5, 10):.1f}"
            answer = await self._asked("turn", wanted, msgspec.json.encode(turn), headers)
            if answer is not None:
                self.turns[name] += 1
                reports = tuple(_done(order, worker_id) for order in _ANSWERS.decode(answer.content).orders)

    async def _asked(self, whose: str, path: str, body: bytes, headers: dict[str, str]) -> httpx2.Response | None:
        """The answer, if it is one; after a while, as the server asked for it, if it is not."""
        about = {"authorization": f"Bearer {self._tokens[whose]}", "content-type": "application/json", **headers}
        try:
            answer = await self._http.post(path, content=body, headers=about)
        except httpx2.TransportError as problem:
            self.lost[repr(problem)] += 1
            await asyncio.sleep(random.uniform(0.2, 1.0))
            return None
        self.statuses[answer.status_code] += 1
        if answer.is_success:
            return answer
        if answer.status_code not in POLITE or "retry-after" not in answer.headers:
            self.rude.append(f"{answer.status_code} {path}: {answer.text[:300]}")
        await asyncio.sleep(float(answer.headers.get("retry-after", 1)) * random.uniform(1.0, 1.5))
        return None


def _done(order: Order, worker_id: str) -> Report:
    return Report(
        order_id=order.order_id,
        execution_id=order.execution_id,
        lease_epoch=order.lease_epoch,
        worker_id=worker_id,
        entries=(Timed(0.0, StepDone(result=TaskResult())),),
    )


async def until(look: Callable[[], Any], within_s: float, what: str) -> None:
    async with asyncio.timeout(within_s) as limit:
        while not look():
            await asyncio.sleep(0.05)
    assert not limit.expired(), what
