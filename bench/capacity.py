"""How far one PostgreSQL goes: the model of docs/scaling.md as arithmetic, and a simulation that plays it out.

A server takes the steps that are due, decides them one after the other, and stores all of them in one commit; while
that is under way the next ones gather. A commit takes `flush_s` however many steps it holds, and `write_s` of a core of
the database for each. Nothing here measures: `bench.scaling` does.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Costs:
    """Of one step: seconds of a server's core, and of the database's; of one commit: seconds until it is flushed."""

    decide_s: float
    write_s: float
    flush_s: float
    largest_batch: int = 64


@dataclass(frozen=True)
class Installation:
    servers: int
    database_cores: int


def steps_per_s(costs: Costs, place: Installation) -> float:
    """The throughput under full load. Servers add up until all cores of the database are busy."""
    batch = costs.largest_batch
    of_a_server = batch / (batch * (costs.decide_s + costs.write_s) + costs.flush_s)
    return min(place.servers * of_a_server, place.database_cores / costs.write_s)


def databases_for(costs: Costs, wanted_steps_per_s: float, database_cores: int, *, share: float = 0.7) -> int:
    """How many databases this number of steps per second needs, if none of them may be busier than `share`."""
    each = share * database_cores / costs.write_s
    return max(1, -int(-wanted_steps_per_s // each))


@dataclass
class _Server:
    due: deque[int] = field(default_factory=deque)
    is_busy: bool = False


class Simulation:
    """Executions of `steps` steps, `crowd` of them at any time, spread over the servers by their number.

    Time passes from event to event; the database serves commits in their order, each on one of its cores.
    """

    def __init__(self, costs: Costs, place: Installation, *, crowd: int, steps: int = 10) -> None:
        self._costs, self._steps = costs, steps
        self._servers = [_Server() for _ in range(place.servers)]
        self._cores = [0.0] * place.database_cores  # when each is free
        self._left = [steps] * crowd
        self._commits: list[tuple[float, int, list[int]]] = []
        self._now, self.done = 0.0, 0
        for execution in range(crowd):
            self._servers[execution % place.servers].due.append(execution)

    def run(self, until_s: float) -> float:
        """Steps a second over so many seconds."""
        for number in range(len(self._servers)):
            self._begin(number)
        while self._commits and self._now < until_s:
            self._now, number, batch = heapq.heappop(self._commits)
            self._stored(number, batch)
        return self.done / self._now

    def _begin(self, number: int) -> None:
        server = self._servers[number]
        batch = [server.due.popleft() for _ in range(min(len(server.due), self._costs.largest_batch))]
        if not batch:
            return
        server.is_busy = True
        sent = self._now + self._costs.decide_s * len(batch)
        begun = max(sent, heapq.heappop(self._cores))
        written = begun + self._costs.write_s * len(batch)
        heapq.heappush(self._cores, written)
        heapq.heappush(self._commits, (written + self._costs.flush_s, number, batch))

    def _stored(self, number: int, batch: list[int]) -> None:
        self.done += len(batch)
        server = self._servers[number]
        server.is_busy = False
        for execution in batch:
            self._left[execution] -= 1
            if self._left[execution] == 0:
                self._left[execution] = self._steps  # another one takes its place
            server.due.append(execution)
        self._begin(number)
