"""A soak: for an hour, or the given time, loads on clusters of real processes whose parts are killed and frozen.

`make soak` runs it, `make soak ARGS="--minutes 5"` a shorter one. Each load has a cluster and a database of its own;
after each of them every promise is checked, and a line says what it was put through.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path

from tests.cluster.backends import Nats, Postgres
from tests.cluster.ledgers import Effects
from tests.cluster.load import survive
from tests.cluster.machines import TTL_S, Cluster, cluster
from tests.cluster.playbooks import LOOP


def freeze_some(grounds: Cluster, over: threading.Event) -> None:
    """One worker after another is frozen past its lease, and wakes."""
    while not over.wait(random.uniform(1.0, 5.0)):
        member = random.choice(grounds.workers)
        if member.is_alive:
            member.freeze()
            over.wait(TTL_S * random.uniform(0.5, 2.0))
            if member.is_alive:
                member.thaw()


def soak_once(postgres: Postgres, executions: int) -> str:
    postgres.renew()
    broker = Nats()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Effects() as effects,
            cluster(Path(folder), postgres.url, nats=broker.url) as grounds,
        ):
            for _ in range(2):
                grounds.server()
            grounds.register(LOOP)
            for number in (0, 1, 0):
                grounds.worker(number)
            return _survived(grounds, postgres, broker, effects, executions)
    finally:
        broker.stop()


def _survived(grounds: Cluster, postgres: Postgres, broker: Nats, effects: Effects, executions: int) -> str:
    over = threading.Event()
    freezing = threading.Thread(target=freeze_some, args=(grounds, over))
    freezing.start()
    try:
        counts = survive(
            grounds, postgres, broker, effects, executions=executions, rounds=2, pause_s=2.0, within_s=900.0
        )
        return str(counts)
    finally:
        over.set()
        freezing.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="Loads on clusters whose parts are killed and frozen.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--executions", type=int, default=300, help="of one load")
    asked = parser.parse_args()
    end, postgres, loads = time.monotonic() + asked.minutes * 60, Postgres(), 0
    try:
        while not loads or time.monotonic() < end:
            loads += 1
            print(f"load {loads}: {soak_once(postgres, asked.executions)}", flush=True)
    finally:
        postgres.stop()


if __name__ == "__main__":
    main()
