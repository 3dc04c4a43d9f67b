"""A load with five-item loops while servers, workers, PostgreSQL and NATS are killed in turn: every accepted execution
ends once, and every item counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.backends import Nats, Postgres
from tests.cluster.ledgers import Effects
from tests.cluster.load import survive
from tests.cluster.machines import cluster
from tests.cluster.playbooks import LOOP


@pytest.mark.req("SRV-12", "WRK-03", "WRK-04", "EVT-01")
@pytest.mark.parametrize(
    ("executions", "rounds", "pause_s", "within_s"),
    [
        pytest.param(200, 1, 1.0, 200.0, id="a tenth", marks=pytest.mark.timeout(400)),
        pytest.param(2_000, 30, 3.0, 900.0, id="whole", marks=[pytest.mark.deep, pytest.mark.timeout(1800)]),
    ],
)
def test_a_load_completes_while_every_component_is_killed_in_turn(
    tmp_path: Path,
    postgres: Postgres,
    effects: Effects,
    executions: int,
    rounds: int,
    pause_s: float,
    within_s: float,
) -> None:
    broker = Nats()
    try:
        with cluster(tmp_path, postgres.url, nats=broker.url) as grounds:
            for _ in range(2):
                grounds.server()
            grounds.register(LOOP)
            for number in range(2):
                grounds.worker(number)
            told = survive(
                grounds,
                postgres,
                broker,
                effects,
                executions=executions,
                rounds=rounds,
                pause_s=pause_s,
                within_s=within_s,
            )
            print(told)
    finally:
        broker.stop()
