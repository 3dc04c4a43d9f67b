"""The control plane of a remote worker, over HTTP (WRK-01, WRK-06).

The worker opens connections, accepts none, and has no store. Orders come by a long poll and are kept until a slot asks.
Reports are separate requests, so they never wait behind the long poll.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from noetl.base.clock import SystemClock
from noetl.base.errors import ToolError
from noetl.events import orders
from noetl.events.outcomes import Reference
from noetl.events.secret_materials import Ask, Material
from noetl.net.net import Net, from_json
from noetl.worker.attempt import Sleep
from noetl.worker.http1 import Reply
from noetl.worker.leases import HeldLeases
from noetl.worker.remote_values import RemoteTables, RemoteValues
from noetl.worker.server_connection import Say, ServerClock, ServerConnection, ServerRefusedError

POLL_S = 20.0  # after this time the server answers a long poll without orders
ANSWER_S = 8.0  # an answer counts as lost after this, or this much after the end of a poll: well within a lease
DOUBT_S = POLL_S + ANSWER_S  # for this long a server may still act on a request whose answer was lost
CALL_S = 40.0  # one wait for a nested playbook; the server answers "running" well before
PAUSE_S = 1.0  # between two checks of a paused execution
_NETS = 64
_EXECUTIONS = 4096  # far more executions than a worker has at a time
UNREGISTERED = "urn:noetl:problem:unregistered"
_HELD = (orders.ReportResult.ACCEPTED, orders.ReportResult.DUPLICATE)
_UNREADABLE = (400, 404, 413, 422)  # the server could not read the request, or no longer has its object

_answers = msgspec.json.Decoder(orders.TurnAnswer)
_called = msgspec.json.Decoder(orders.PlaybookCallResult)
_materials = msgspec.json.Decoder(Material)


class RemoteControlPlane:
    """`leases` are those of orders that wait for a slot; the worker adds those it runs. `register` registers the worker
    again at a server that does not know it."""

    def __init__(
        self,
        connection: ServerConnection,
        values: RemoteValues,
        *,
        worker_id: str,
        pools: tuple[str, ...] = ("default",),
        leases: HeldLeases | None = None,
        clock: ServerClock | None = None,
        say: Say = lambda _: None,
        sleep: Sleep = asyncio.sleep,
        register: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._register = register
        self._connection, self._values, self._say, self._sleep = connection, values, say, sleep
        headers, verify = connection.headers, connection.verify
        self._tables = RemoteTables(connection.url, headers, worker_id, verify=verify, sleep=sleep)
        self._worker_id, self._pools = worker_id, pools
        self.leases, self.clock = leases or HeldLeases(), clock or ServerClock(SystemClock())
        # Orders from the long poll that no slot has taken yet. They are held under leases, which the heartbeat renews.
        self._arrived: deque[orders.Order] = deque()
        self._nets: OrderedDict[str, Net] = OrderedDict()
        # Until this time a lost answer may have named orders that this worker does not know: turns say which ones it
        # holds (`Turn.holding`).
        self._in_doubt_until = float("-inf")
        self._is_shown = True  # False for an older server without a route for live output
        self._held: OrderedDict[str, tuple[str, int]] = OrderedDict()  # execution -> the last order of it that was held

    # reporting and claiming

    async def turn(self, turn: orders.Turn) -> orders.TurnAnswer:
        arrived = self._pop_arrived(turn.capacity)
        # The long poll has brought enough orders: no request is needed.
        if len(arrived) == turn.capacity and not turn.reports:
            return orders.TurnAnswer(orders=arrived)
        # Values are uploaded while the task runs; the report that names them waits for them here.
        await self._values.settled(turn.reports)
        unsound = [self._names_what_was_refused(report) for report in turn.reports]
        # Without its entries a report still gets the server's verdict: of a cancelled order, what its tools have begun
        # elsewhere has to be ended.
        as_sent = [
            msgspec.structs.replace(report, entries=()) if refused else self._values.as_stored(report)
            for report, refused in zip(turn.reports, unsound, strict=True)
        ]
        asked = msgspec.structs.replace(turn, reports=tuple(as_sent), capacity=turn.capacity - len(arrived))
        answer = await self._turn_answer(asked)
        verdicts = [
            orders.ReportResult.REFUSED if refused and verdict in _HELD else verdict
            for verdict, refused in zip(answer.verdicts, unsound, strict=True)
        ]
        return msgspec.structs.replace(answer, verdicts=tuple(verdicts), orders=(*arrived, *answer.orders))

    async def poll(self, capacity: int) -> int:
        """Wait for orders, and return how many have come; the next turns return them."""
        turn = orders.Turn(worker_id=self._worker_id, capacity=capacity, pools=self._pools)
        answer = await self._send_turn(turn, wait_s=POLL_S)
        self._arrived += answer.orders
        return len(answer.orders)

    def _pop_arrived(self, most: int) -> tuple[orders.Order, ...]:
        return tuple(self._arrived.popleft() for _ in range(min(most, len(self._arrived))))

    async def _turn_answer(self, turn: orders.Turn) -> orders.TurnAnswer:
        try:
            return await self._send_turn(turn)
        except _TurnTooLargeError as problem:
            return await self._in_parts(turn, problem.parts)
        except ServerRefusedError as problem:
            if problem.status not in _UNREADABLE or not turn.reports:
                raise
            return await self._one_by_one(turn, problem)

    async def _in_parts(self, turn: orders.Turn, parts: tuple[orders.Turn, ...]) -> orders.TurnAnswer:
        """Send a turn that is larger than a server takes as several."""
        answer = _joined_answers([await self._turn_answer(part) for part in parts])
        if len(answer.verdicts) == len(turn.reports):
            return answer
        # Parts of one report. A part that was not taken decides about the whole.
        verdict = next((one for one in answer.verdicts if one not in _HELD), answer.verdicts[-1])
        return msgspec.structs.replace(answer, verdicts=(verdict,))

    async def _one_by_one(self, turn: orders.Turn, problem: ServerRefusedError) -> orders.TurnAnswer:
        """Send reports one at a time, so that a report that the server cannot read fails its own order only."""
        if len(turn.reports) == 1 and turn.capacity == 0:
            self._say(f"a report of order {turn.reports[0].order_id} was not taken: {problem}")
            return orders.TurnAnswer(verdicts=(orders.ReportResult.REFUSED,))
        parts = [msgspec.structs.replace(turn, reports=(report,), capacity=0) for report in turn.reports]
        answers = [await self._turn_answer(part) for part in parts]
        if turn.capacity:
            answers.append(await self._send_turn(msgspec.structs.replace(turn, reports=())))
        return _joined_answers(answers)

    async def _send_turn(self, turn: orders.Turn, wait_s: float = 0.0) -> orders.TurnAnswer:
        """The answer to a turn. If the server does not know this worker (its store was emptied), register first."""
        try:
            response, asked_at = await self._request_turn(turn, wait_s)
        except ServerRefusedError as problem:
            if self._register is None or problem.problem.get("type") != UNREGISTERED:
                raise
            await self._register()
            response, asked_at = await self._request_turn(turn, wait_s)
        # The answer to a long poll may be old when it is read, and would set the clock wrong.
        if not wait_s:
            self.clock.note_server_time(response.headers.get("noetl-now") or response.headers.get("date"))
        answer = _answers.decode(response.content)
        if answer.orders:
            # A repeated turn returns orders that the lost answer may have delivered after all.
            new = (order for order in answer.orders if self.leases.add_if_new(order.order_id, order.lease_epoch))
            answer = msgspec.structs.replace(answer, orders=tuple(new))
        for order in answer.orders:
            # Measured from the request, not from its answer: the lease began somewhere in between, so this is the
            # safe side.
            self.leases.receive(order, left_s=_left_s(order, response.headers) + asked_at - self.leases.now())
            self._held[order.execution_id] = order.order_id, order.lease_epoch
            self._held.move_to_end(order.execution_id)
        while len(self._held) > _EXECUTIONS:
            self._held.popitem(last=False)
        return answer

    async def _request_turn(self, turn: orders.Turn, wait_s: float) -> tuple[Reply, float]:
        """The reply, and when it was requested. Once an answer was lost, every request names the orders that arrived,
        for as long as a server may still work on the lost one. The server hands out the others again."""
        asked_at = 0.0
        if orders.is_oversized(turn):
            raise _TurnTooLargeError(orders.smaller_turns(turn))

        def body() -> bytes:
            nonlocal asked_at
            asked_at = self.leases.now()
            is_in_doubt = asked_at < self._in_doubt_until
            sent = msgspec.structs.replace(turn, holding=self.leases.epochs()) if is_in_doubt else turn
            return msgspec.json.encode(sent)

        def retry_body() -> bytes:
            # The first request may still be worked on by a server. Until it cannot be, every turn says what has
            # arrived.
            self._in_doubt_until = self.leases.now() + DOUBT_S
            return body()

        first = body()
        # One large entry is sent as it is: the server says what it thinks of it.
        if len(first) > orders.MAX_TURN_BYTES and (parts := orders.smaller_turns(turn)):
            raise _TurnTooLargeError(parts)
        reply = await self._connection.ask(
            "POST",
            "/api/orders/turn",
            body=first,
            params={"wait_s": f"{wait_s:g}"},
            patience_s=wait_s + ANSWER_S,
            again=retry_body,
        )
        return reply, asked_at

    def _names_what_was_refused(self, report: orders.Report) -> bool:
        found = self._values.refusal_of(report)
        if found is not None:
            self._say(f"a result of order {report.order_id} was not stored: {found}")
        return found is not None

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        """The same request as the heartbeat thread sends, for callers in the event loop."""
        body = msgspec.json.encode({"worker_id": worker_id, "leases": leases, "ttls": ttls or {}})
        answer = msgspec.json.decode((await self._connection.ask("POST", "/api/orders/heartbeat", body=body)).content)
        return frozenset(answer.get("lost", ())) | frozenset(answer.get("stop", ()))

    async def resumed(self, execution_id: str) -> None:
        """Poll with empty reports: the answer says whether the execution is paused."""
        order_id, epoch = self._held.get(execution_id, ("", 0))
        nothing = orders.Report(
            order_id=order_id, execution_id=execution_id, lease_epoch=epoch, worker_id=self._worker_id, entries=()
        )
        while order_id:
            answer = await self._turn_answer(
                orders.Turn(worker_id=self._worker_id, reports=(nothing,), pools=self._pools)
            )
            if order_id not in answer.paused or answer.verdicts[0] not in _HELD:
                return
            await self._sleep(PAUSE_S)

    # the needs of an order

    async def net(self, net_hash: str) -> Net:
        if net_hash not in self._nets:
            self._nets[net_hash] = from_json((await self._connection.ask("GET", f"/api/nets/{net_hash}")).content)
            while len(self._nets) > _NETS:
                self._nets.popitem(last=False)
        self._nets.move_to_end(net_hash)
        return self._nets[net_hash]

    async def secret(self, ask: Ask) -> Material:
        try:
            response = await self._connection.ask("POST", "/api/orders/secret", body=msgspec.json.encode(ask))
        except ServerRefusedError as problem:
            _fail(problem, "keychain.unresolved")
        return _materials.decode(response.content)

    async def call(self, call: orders.PlaybookCall) -> orders.PlaybookCallResult:
        body = msgspec.json.encode(call)
        while True:
            try:
                response = await self._connection.ask("POST", "/api/orders/call", body=body, patience_s=CALL_S)
            except ServerRefusedError as problem:
                _fail(problem, "playbook.failed", child_status="refused")
            called = _called.decode(response.content)
            # The server answers before proxies time out. A repeated call finds the same child, by its derived id.
            if called.status != "running" or not call.wait:
                return called

    async def give_up(self, call: orders.PlaybookCall, reason: str) -> None:
        body = msgspec.json.encode({"call": call, "reason": reason})
        await self._connection.ask("POST", "/api/orders/give-up", body=body)

    async def show_output(self, batch: orders.OutputBatch) -> None:
        """Send lines that tasks print. An older server has no such route; then the worker sends no more."""
        if not self._is_shown:
            return
        try:
            await self._connection.ask(
                "POST", "/api/orders/output", body=msgspec.json.encode(batch), patience_s=ANSWER_S
            )
        except ServerRefusedError as problem:
            self._is_shown = problem.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
            raise

    async def schema(self, named: str) -> Any:
        try:
            response = await self._connection.ask("GET", f"/api/schemas/{quote(named, safe='')}")
        except ServerRefusedError as problem:
            if problem.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return msgspec.json.decode(response.content)["schema"]

    def keep(self, value: Any, execution_id: str) -> Reference:
        return self._values.keep(value, execution_id)

    def load(self, reference: Reference) -> Any:
        return self._values.load(reference)

    async def keep_table(self, file: Path, execution_id: str) -> Reference:
        return await self._tables.keep(file, execution_id)

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._tables.fetch(reference, into)

    async def settled(self, what: Any) -> None:
        """Return once the server has every value that `what` names."""
        await self._values.settled(what)

    async def prepare(self, order: orders.Order) -> None:
        """Load the values that the order refers to."""
        await self._values.prefetch(order)


class _TurnTooLargeError(Exception):
    """A turn that no server takes; `parts` are turns that say the same."""

    def __init__(self, parts: tuple[orders.Turn, ...]) -> None:
        super().__init__(f"a turn has at most {orders.MAX_TURN_BYTES} bytes")
        self.parts = parts


def _joined_answers(answers: Sequence[orders.TurnAnswer]) -> orders.TurnAnswer:
    return orders.TurnAnswer(
        verdicts=tuple(verdict for answer in answers for verdict in answer.verdicts),
        orders=tuple(order for answer in answers for order in answer.orders),
        stopped={order_id: paths for answer in answers for order_id, paths in answer.stopped.items()},
        paused=tuple(order_id for answer in answers for order_id in answer.paused),
    )


def _left_s(order: orders.Order, headers: Mapping[str, str]) -> float:
    """How long the lease of an order lasts, counted from the request. The answer says when the server had the request:
    the answer itself may have waited here while this process was stopped."""
    asked = headers.get("noetl-asked")
    if asked is None or not order.lease_until:
        return order.terms.ttl_s  # the server did not say; it is not longer than this
    return order.lease_until - float(asked)


def _fail(problem: ServerRefusedError, kind: str, **details: object) -> NoReturn:
    """Raise the server's refusal as the error of the task: the tool error in the answer, or one of `kind`."""
    fields = problem.problem.get("error")
    if not isinstance(fields, dict):
        fields = {"kind": kind, "message": str(problem.problem.get("detail") or problem)}
    error = ToolError(str(fields["kind"]), str(fields["message"]), retryable=bool(fields.get("retryable")))
    error.details.update({**details, **(fields.get("details") or {})})
    raise error from None
