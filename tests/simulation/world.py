"""A simulated installation: servers, workers, one store, one network and one clock in one process, from one seed.

Servers and workers are the real ones (control plane, background jobs, long polls, worker, remote office, line).
Simulated are what lies between and beneath them: time, the wire, the calls of the store, the tools, and the death of
processes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from noetl.base.errors import BackendError, NoetlError, RefusedError
from noetl.control.assembly import assemble
from noetl.control.claiming.pools import EVERY
from noetl.control.commit.effects import Listeners
from noetl.control.commit.sharing import SharedExecutions
from noetl.control.executions import Executions
from noetl.events.orders import Turn, TurnAnswer, read_turn
from noetl.net.net import Net, to_json
from noetl.server.problem_details import ProblemDetails, problem_response
from noetl.server.routes import orders as routes
from noetl.server.workers import Roster, WorkerRow, worker_id_of
from noetl.store.contract import Commit, TakenError
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from noetl.worker.control_plane import RetryingControlPlane
from noetl.worker.http1 import HttpConnectionError, Reply
from noetl.worker.leases import HeldLeases
from noetl.worker.remote_control_plane import RemoteControlPlane
from noetl.worker.remote_values import RemoteValues
from noetl.worker.remote_worker import WakeupPoll
from noetl.worker.reports import SHARED_PENDING
from noetl.worker.server_connection import ServerClock
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.simulation import invariants
from tests.simulation.loop import Node, SimulatedLoop, current_node
from tests.simulation.network import Address, Faults, Network, SimulatedLine, SimulatedWire

BEGINNING = 1_735_689_600.0
INTRUSIONS = 6
FAULTY_S = 90.0  # so long things go wrong; then everything is to be done
DONE_S = 600.0
WORKERS, STRANGER = "workers", "stranger"  # tokens, and the pools they are for
POOLS = {WORKERS: frozenset({"default"}), STRANGER: frozenset({"other"})}


class SimulatedClock:
    def __init__(self, loop: SimulatedLoop, wrong_by_s: float = 0.0) -> None:
        self._loop, self._wrong_by_s = loop, wrong_by_s

    def now(self) -> float:
        return BEGINNING + self._loop.time() + self._wrong_by_s


class SimulatedStore:
    """The store as one server reaches it: each call takes a moment, and may fail before it has acted, or after."""

    def __init__(self, world: World) -> None:
        self._world, self._store = world, world.store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def called(*values: Any, **named: Any) -> Any:
            await self._passed(name)
            answer = await found(*values, **named)
            if name == "commit":
                self._world.stored(values[0])
            await self._passed(name)
            return answer

        return called

    async def _passed(self, name: str) -> None:
        dice, faults = self._world.dice, self._world.faults
        if self._world.loop.is_ending:
            raise BackendError("the simulation is over")
        await asyncio.sleep(dice.uniform(0.0001, 0.003))
        if faults.store and dice.random() < faults.store:
            raise BackendError(f"{name} failed")


class SimulatedTool:
    def __init__(self, world: World, worker_id: str) -> None:
        self._world, self._worker_id = world, worker_id

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        world = self._world
        log = world.store._events.get(context.task_run.execution_id, [])
        world.hold(lambda: invariants.begins_for_the_first_time(log, context.task_run.task_run_id, self._worker_id))
        world.begun += 1
        world.may_freeze(current_node())
        last_s = 12.0 if context.task_run.task == "c" else 4.0  # a frozen node continues while it is still open
        await asyncio.sleep(world.dice.choice((0.0, 0.01, 0.1, 1.0, last_s)))
        return ToolResult(result=1)

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class SimulatedServer:
    """One process of a server. Where `works`, with a worker inside."""

    def __init__(self, world: World, name: str, address: Address, *, works: bool) -> None:
        self.node, self._world, self.address = Node(name), world, address
        self._stubs = SimpleNamespace(
            stopping=False,
            dispatch=MemoryWakeups(),
            settings=SimpleNamespace(poll_s=1.0),
            listeners=SimpleNamespace(meters=SimpleNamespace(turns=SimpleNamespace(observe=lambda _: None))),
        )
        store: Any = SimulatedStore(world)
        self._roster = self._stubs.roster = Roster(store.key_values, world.clock)
        self._stubs.store = store
        leases = HeldLeases(world.clock, world.loop.time)
        self._handle = WorkerHandle(name, self._stubs.dispatch.notify_workers, leases)
        control = self._stubs.control = assemble(
            store,
            world.results,
            self._stubs.dispatch,
            world.clock,
            sharing=SharedExecutions(),
            listeners=Listeners(stop=self._handle.stop),
        )
        self.executions, self.for_workers = control.executions, control.for_workers
        world.run(self.node, control.background_jobs.lost_work.serve())
        if works:
            self._work(name)
        address.node, address.handle = self.node, self.handle

    def _work(self, name: str) -> None:
        world = self._world
        worker = Worker(
            RetryingControlPlane(self.for_workers, self._handle.leases),
            self._stubs.dispatch,
            Registry({"python": SimulatedTool(world, name)}),
            self._handle,
            clock=world.clock,
            slots=2,
            most_pending=SHARED_PENDING,
        )
        world.worker_ids.append(name)
        world.run(self.node, self._registered_work(name, worker))

    async def _registered_work(self, name: str, worker: Worker) -> None:
        await self._roster.register(WorkerRow(worker_id=name, pools=(EVERY,)))
        await worker.serve()

    async def handle(self, method: str, target: str, body: bytes, token: str) -> Reply:
        """As the routes do it."""
        came_at = self._world.clock.now()
        try:
            answer = await self._answer(urlsplit(target).path, target, body, token)
        except BackendError as problem:
            return Reply(503, str(problem), {}, b"{}")
        except ProblemDetails as problem:
            return Reply(problem.status, problem.detail, {}, bytes(problem_response(problem, target).body))
        except Exception as problem:  # a defect of the server or of this stand-in: to its peers it looks like silence
            self._world.broken = self._world.broken or AssertionError(f"{target} broke {self.node.name}: {problem!r}")
            raise
        headers = {"noetl-asked": f"{came_at:.6f}", "noetl-now": f"{self._world.clock.now():.6f}"}
        return Reply(200, "OK", headers, answer)

    def _request(self, token: str) -> Any:
        """The parts of a request that route checks read."""
        identity = SimpleNamespace(token_id=token, pools=POOLS[token])
        app = SimpleNamespace(state=SimpleNamespace(services=self._stubs))
        return SimpleNamespace(app=app, state=SimpleNamespace(identity=identity))

    async def _answer(self, path: str, target: str, body: bytes, token: str) -> bytes:
        services: Any = self._stubs
        if path == "/api/workers":
            worker_id = worker_id_of(token, "worker", body.decode())
            await self._roster.register(WorkerRow(worker_id=worker_id, token_id=token))
            return msgspec.json.encode({"worker_id": worker_id})
        if path.startswith("/api/nets/"):
            return to_json(await self.executions.net(path.rpartition("/")[2]))
        if path == "/api/orders/heartbeat":
            beat = msgspec.json.decode(body, type=routes.Beat)
            await routes.check_worker(self._request(token), beat.worker_id)
            lost = await self.for_workers.renew(beat.worker_id, beat.leases, beat.ttls)
            return msgspec.json.encode(routes.Beaten(lost=sorted(lost)))
        assert path == "/api/orders/turn", path
        asked = read_turn(body)
        await routes.check_turn(self._request(token), services, asked)
        wait_s = float(parse_qs(urlsplit(target).query)["wait_s"][0])
        return msgspec.json.encode(await self._turn(asked, wait_s))

    async def _turn(self, asked: Turn, wait_s: float) -> TurnAnswer:
        services: Any = self._stubs
        answer = await routes._take_turn(services, asked)
        if not answer.orders and not asked.reports and asked.capacity and wait_s:
            answer = await routes._wait_for_orders(_Connected(), services, asked, wait_s)  # type: ignore[arg-type]  # a stand-in
        return answer


class _Connected:
    async def is_disconnected(self) -> bool:
        return False


class World:
    """`run_all` runs it to its end. The first thing that does not hold comes out of it."""

    def __init__(self, seed: int, faults: Faults, net: Net, *, executions: int = 2, workers: int | None = None) -> None:
        random.seed(seed)
        self._first_workers = workers
        self.seed, self.faults, self._net, self._executions = seed, faults, net, executions
        self.dice, self.loop = Random(seed), SimulatedLoop()
        self.clock, self.store, self.results = SimulatedClock(self.loop), MemoryStore(), MemoryResults()
        self.network = Network(self.loop, self.dice, faults, self.may_freeze)
        self.accepted: list[str] = []
        self.broken: BaseException | None = None
        self.begun = self.steps = 0
        self._left_to_freeze = faults.freezes
        self._tasks: set[asyncio.Task[Any]] = set()
        self._addresses = [Address() for _ in range(self.dice.randint(1, 2))]
        self._servers: list[SimulatedServer] = []
        self._workers: dict[Node, HeldLeases] = {}
        self._names = 0
        self.worker_ids: list[str] = []  # as written in a log

    def run_all(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._lived())
        finally:
            self.loop.end()
            asyncio.set_event_loop(None)

    def run(self, node: Node, work: Any) -> asyncio.Task[Any]:
        task = self.loop.create_task(work, context=node.context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hold(self, check: Callable[[], None]) -> None:
        """Assert an invariant. A violation ends the simulation, from any place."""
        self.steps += 1
        try:
            check()
        except AssertionError as problem:
            self.broken = self.broken or problem

    def stored(self, commits: list[Commit]) -> None:
        for execution_id in {commit.execution.execution_id: None for commit in commits}:
            log = self.store._events[execution_id]
            self.hold(partial(invariants.log_is_sound, log, ended=False))

    async def _lived(self) -> None:
        for address in self._addresses:
            self._serve(address)
        for _ in range(self._first_workers or self.dice.randint(1, 3)):
            self._add_worker()
        self.run(Node("stranger"), self._intrude())
        starting = [self.loop.create_task(self._start(f"x{number}")) for number in range(self._executions)]
        disturbing = self.loop.create_task(self._disturb())
        await self._until(lambda: disturbing.done() and all(task.done() for task in starting), FAULTY_S + DONE_S)
        self._heal()
        await self._until(self._is_over, DONE_S)
        self.hold(lambda: None)
        await invariants.all_is_done(self.store, self.accepted)
        control_planes = [server.executions for server in self._servers if not server.node.is_dead]
        for execution_id in self.accepted:
            log = self.store._events[execution_id]
            invariants.log_is_sound(log, ended=True)
            invariants.replays_alike(log, control_planes)

    async def _until(self, look: Callable[[], bool], most_s: float) -> None:
        end = self.loop.time() + most_s
        while not look() and self.loop.time() < end:
            await asyncio.sleep(0.5)
            if self.broken is not None:
                raise self.broken

    def _is_over(self) -> bool:
        rows = self.store._executions
        return all(one in rows and rows[one].finished_at is not None for one in self.accepted)

    # faults

    def _heal(self) -> None:
        for name in ("lost", "doubled", "late", "store"):
            setattr(self.faults, name, 0.0)

    async def _disturb(self) -> None:
        """Crashes happen in the first seconds, when most of the work is done; messages are lost for longer."""
        for moment in sorted(self.dice.expovariate(0.5) for _ in range(self.faults.crashes)):
            await asyncio.sleep(max(0.0, moment - self.loop.time()))
            self._crash()
        if any(msgspec.structs.astuple(self.faults)[:4]):
            await asyncio.sleep(self.dice.uniform(1.0, 20.0) + (40.0 if self.faults.freezes else 0.0))

    def _crash(self) -> None:
        servers = [one for one in self._servers if not one.node.is_dead]
        if self.dice.random() < 0.5 and servers:
            server = self.dice.choice(servers)
            server.node.is_dead, server.address.node = True, None
            self.network.cut(server.address)
            self.loop.call_later(self.dice.uniform(0.1, 3.0), self._serve, server.address)
        else:
            node = self.dice.choice([one for one in self._workers if not one.is_dead])
            node.is_dead = True
            self._add_worker()

    def may_freeze(self, node: Node | None) -> None:
        """A worker may be frozen in the middle of a tool, or when an answer is on its way to it, which it finds when it
        wakes. Most of them wake when another worker has just taken over."""
        if self._left_to_freeze and node in self._workers and self.dice.random() < 0.2:
            self._left_to_freeze -= 1
            self.loop.freeze(node, self.dice.uniform(25.0, 37.0) if self.dice.random() < 0.8 else 60.0)
            self._add_worker()

    # nodes

    def _serve(self, address: Address) -> None:
        self._names += 1
        works = self.faults.store == 0 and self.dice.random() < 0.3
        self._servers.append(SimulatedServer(self, f"server{self._names}", address, works=works))

    def _add_worker(self) -> None:
        self._names += 1
        node = Node(f"worker{self._names}")
        leases = self._workers[node] = HeldLeases(monotonic=self.loop.time)
        self.run(node, self._work(node, leases))

    async def _work(self, node: Node, leases: HeldLeases) -> None:
        line = SimulatedLine(self.network, self.dice.choice(self._addresses), WORKERS)

        async def register() -> str:
            answer = await line.ask("POST", "/api/workers", body=node.name.encode())
            return str(msgspec.json.decode(answer.content)["worker_id"])

        worker_id = await register()
        self.worker_ids.append(worker_id)
        clock = ServerClock(SimulatedClock(self.loop, self.dice.choice((0.0, 3600.0, -3600.0))))
        control_plane = RemoteControlPlane(
            line,
            RemoteValues(line, _nobody, worker_id),
            worker_id=worker_id,
            leases=leases,
            clock=clock,
            register=register,
        )
        wakeups = WakeupPoll(control_plane)
        worker = Worker(
            control_plane,
            wakeups,
            Registry({"python": SimulatedTool(self, worker_id)}),
            WorkerHandle(worker_id, wakeups.notify_workers, leases),
            clock=clock,
            slots=self.dice.randint(1, 3),
            pools=("default",),
            prepare=control_plane.prepare,
            settle=control_plane.settled,
            most_pending=SHARED_PENDING,
        )
        await worker.serve()

    async def _intrude(self) -> None:
        """A worker of another pool acts for other workers: it requests their orders, and tries to renew their
        leases. All these must be refused."""
        dice = Random(f"stranger {self.seed}")
        for _ in range(INTRUSIONS):
            await asyncio.sleep(dice.uniform(0.1, 4.0))
            if not self.worker_ids:
                continue
            worker_id = dice.choice(self.worker_ids)
            wire = SimulatedWire(self.network, dice.choice(self._addresses), STRANGER)
            turn = Turn(worker_id=worker_id, capacity=3, pools=("other",), holding={})
            asked = ("/api/orders/turn?wait_s=0", msgspec.json.encode(turn))
            if dice.random() < 0.3:
                asked = ("/api/orders/heartbeat", msgspec.json.encode(routes.Beat(worker_id=worker_id, leases={})))
            with suppress(HttpConnectionError):
                reply = await wire.ask("POST", asked[0], body=asked[1], timeout_s=8.0)
                self.hold(partial(invariants.stranger_is_refused, reply.status, worker_id))

    async def _start(self, execution_id: str) -> None:
        """A client that retries until its start is accepted."""
        while True:
            server = self.dice.choice(self._servers)
            if not server.node.is_dead:
                asking = self.run(server.node, _started(server.executions, self._net, execution_id))
                done, _ = await asyncio.wait({asking}, timeout=5.0)
                if done and asking.result():
                    self.accepted.append(execution_id)
                    return
            await asyncio.sleep(0.2)


async def _started(executions: Executions, net: Net, execution_id: str) -> bool:
    try:
        await executions.start(net, execution_id=execution_id, trace_id="t", payload={})
    except TakenError:
        return True  # an earlier try was stored, and its answer lost
    except (RefusedError, NoetlError):
        return False
    return True


def _nobody() -> Any:
    raise AssertionError("nothing is stored apart in a simulation")
