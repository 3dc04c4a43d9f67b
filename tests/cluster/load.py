"""A load of executions on a cluster whose parts are killed in turn while it works."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from noetl.events.executions import PlaybookProcessed
from noetl.store.postgres.database import DEFAULT_SCHEMA
from tests.cluster.backends import Nats, Postgres
from tests.cluster.checkers import check, lost_leases
from tests.cluster.ledgers import Effects, Starts
from tests.cluster.machines import Cluster, Member
from tests.narrowing import payload
from tests.waiting import until

PATH = "cluster/loop"
EFFECTS_EACH = 6  # five items, and the step after them
_STARTERS = 4


class Survived(msgspec.Struct, frozen=True, kw_only=True):
    """The faults during a load, and its outcome."""

    executions: int
    kills: dict[str, int]
    started_s: float
    ended_s: float
    effects: int
    lost_leases: int

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {times}" for name, times in self.kills.items())
        return (
            f"{self.executions} executions accepted in {self.started_s:.0f} s, over after {self.ended_s:.0f} s; "
            f"killed: {kills}; {self.effects} effects, {self.lost_leases} leases lost"
        )


class Chaos:
    """Kills one part after another, and begins it again."""

    def __init__(self, grounds: Cluster, postgres: Postgres, broker: Nats, *, pause_s: float) -> None:
        self._grounds, self._pause_s = grounds, pause_s
        self.kills: dict[str, int] = {}
        self._victims: list[tuple[str, Callable[[], None]]] = [
            ("server", lambda: self._process(grounds.servers[self._turn("server")])),
            ("worker", lambda: self._process(grounds.workers[self._turn("worker")])),
            ("postgresql", postgres.bounce),
            ("nats", lambda: broker.bounce(empty=self.kills["nats"] % 2 == 0)),
        ]

    def _turn(self, kind: str) -> int:
        return self.kills[kind] % 2

    @staticmethod
    def _process(member: Member) -> None:
        member.kill()
        member.start(waits=False)

    def serve(self, over: threading.Event, *, rounds: int) -> None:
        """So many rounds at least, and as long as the load goes on."""
        number = 0
        while number < rounds * len(self._victims) and not (over.is_set() and number >= len(self._victims)):
            name, kill = self._victims[number % len(self._victims)]
            time.sleep(self._pause_s * random.uniform(0.5, 1.5))
            self.kills[name] = self.kills.get(name, 0) + 1
            kill()
            number += 1
            self.look_after()

    def look_after(self) -> None:
        """Restart ended processes, as a service manager does."""
        for member in (*self._grounds.servers, *self._grounds.workers):
            if not member.is_alive:
                member.start(waits=False)


def survive(
    grounds: Cluster,
    postgres: Postgres,
    broker: Nats,
    effects: Effects,
    *,
    executions: int,
    rounds: int,
    pause_s: float,
    within_s: float,
) -> Survived:
    """Start so many executions while parts are killed, see all of them end, and check every promise."""
    starts, chaos, over = (
        Starts(grounds, within_s=within_s),
        Chaos(grounds, postgres, broker, pause_s=pause_s),
        threading.Event(),
    )
    killing = threading.Thread(target=chaos.serve, args=(over,), kwargs={"rounds": rounds})
    began = time.monotonic()
    killing.start()
    with ThreadPoolExecutor(_STARTERS) as pool:
        asked = [
            pool.submit(starts.start, PATH, {"url": effects.url}, key=f"k{number}", first=number)
            for number in range(executions)
        ]
        for one in asked:
            one.result()
    started_s = time.monotonic() - began
    over.set()
    killing.join()
    chaos.look_after()
    until(lambda: _open(postgres) == 0, within_s, f"{_open(postgres)} are still open")
    ended_s = time.monotonic() - began

    assert len(starts.accepted) == executions, "a repeated start is the same execution"
    logs = check(grounds.db, starts.accepted, effects.counts)
    assert all(payload(log[-1], PlaybookProcessed).status.value == "completed" for log in logs.values()), "and well"
    assert int(postgres.ask(f"SELECT count(*) FROM {DEFAULT_SCHEMA}.execution", postgres.database)) == executions
    lost = sum(lost_leases(log).total() for log in logs.values())
    assert len(effects.counts) == EFFECTS_EACH * executions, "every item once, by its key"
    return Survived(
        executions=executions,
        kills=chaos.kills,
        started_s=started_s,
        ended_s=ended_s,
        effects=effects.total(),
        lost_leases=lost,
    )


def _open(postgres: Postgres) -> int:
    time.sleep(0.3)
    return int(
        postgres.ask(f"SELECT count(*) FROM {DEFAULT_SCHEMA}.execution WHERE finished_at IS NULL", postgres.database)
    )
