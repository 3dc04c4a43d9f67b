"""The model of docs/scaling.md: the arithmetic says what the simulation plays out, and where adding servers ends."""

from __future__ import annotations

import pytest

from bench.capacity import Costs, Installation, Simulation, databases_for, steps_per_s

COSTS = Costs(decide_s=0.0012, write_s=0.00025, flush_s=0.0018)


@pytest.mark.parametrize("servers", [1, 2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("cores", [2, 8])
def test_the_arithmetic_agrees_with_the_simulation(servers: int, cores: int) -> None:
    place = Installation(servers=servers, database_cores=cores)
    played = Simulation(COSTS, place, crowd=servers * 256).run(until_s=5.0)
    assert played == pytest.approx(steps_per_s(COSTS, place), rel=0.05)


def test_servers_add_up_until_the_database_is_full() -> None:
    few, more, most = (steps_per_s(COSTS, Installation(servers=n, database_cores=8)) for n in (4, 8, 400))
    assert more == pytest.approx(2 * few)
    assert most == pytest.approx(8 / COSTS.write_s)


def test_a_single_execution_waits_for_every_flush() -> None:
    alone = Simulation(COSTS, Installation(servers=4, database_cores=8), crowd=1).run(until_s=5.0)
    assert alone == pytest.approx(1 / (COSTS.decide_s + COSTS.write_s + COSTS.flush_s), rel=0.01)


def test_a_second_database_is_added_when_the_first_would_be_too_busy() -> None:
    limit = 0.7 * 8 / COSTS.write_s
    assert databases_for(COSTS, limit, 8) == 1
    assert databases_for(COSTS, limit * 1.01, 8) == 2
    assert databases_for(COSTS, limit * 3.5, 8) == 4
