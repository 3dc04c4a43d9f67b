"""Seeds: which faults a seed means, and how it is run. `python -m tests.simulation.seeds SEED` runs one and tells."""

from __future__ import annotations

import sys
from functools import cache
from random import Random

from noetl.net.net import Net
from tests.engine_script import net_of
from tests.simulation import invariants
from tests.simulation.network import Faults
from tests.simulation.world import World

CHAIN = """
workflow:
  - step: start
    tool: [{name: a, kind: python, code: x}, {name: b, kind: python, code: x}]
    next: {arcs: [{step: last}]}
  - {step: last, tool: {name: c, kind: python, code: x}}
"""
LOOP = """
workflow:
  - step: start
    loop: {in: [1, 2, 3, 4], iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: [{name: a, kind: python, code: x}, {name: b, kind: python, code: x}]
    next: {arcs: [{step: last}]}
  - {step: last, tool: {name: c, kind: python, code: x}}
"""
FORK = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: python, code: x}, next: {arcs: [{step: last}]}}
  - {step: b, tool: {kind: python, code: x}, next: {arcs: [{step: last}]}}
  - {step: last, spec: {join: all}, tool: {name: c, kind: python, code: x}}
"""


@cache
def _net(text: str) -> Net:
    return net_of(text)


KINDS = ("lossy", "messages", "crashes", "freezes", "store", "all")


def kind_of(seed: int) -> str:
    return KINDS[seed % len(KINDS)]


def faults_of(seed: int) -> Faults:
    dice = Random(f"faults {seed}")
    lost, doubled, late = dice.uniform(0.02, 0.3), dice.uniform(0.0, 0.2), dice.uniform(0.0, 0.05)
    match kind_of(seed):
        case "lossy":
            return Faults(lost=lost, silent=dice.choice((0.0, 0.5)))
        case "messages":
            return Faults(lost=lost, doubled=doubled, late=late)
        case "crashes":
            return Faults(crashes=dice.randint(1, 4))
        case "freezes":
            return Faults(freezes=dice.randint(1, 3), doubled=0.5)
        case "store":
            return Faults(store=dice.uniform(0.005, 0.05))
        case _:
            return Faults(
                lost=lost,
                doubled=doubled,
                late=late,
                store=0.02,
                crashes=dice.randint(0, 2),
                freezes=dice.randint(0, 2),
            )


def world_of(seed: int) -> World:
    text = Random(f"playbook {seed}").choice((CHAIN, LOOP, FORK))
    if kind_of(seed) == "lossy":  # one worker with much to do: several of its requests are under way at once
        return World(seed, faults_of(seed), _net(text), executions=4, workers=1)
    return World(seed, faults_of(seed), _net(text))


def run(seed: int) -> World:
    """Run one seed; AssertionError says what did not hold, and how to see it again."""
    world = world_of(seed)
    try:
        world.run_all()
        if kind_of(seed) == "lossy":
            for execution_id in world.accepted:
                invariants.no_lease_was_lost(world.store._events[execution_id])
    except AssertionError as problem:
        how = f"python -m tests.simulation.seeds {seed}"
        raise AssertionError(f"seed {seed} ({kind_of(seed)}): {problem}\nsee it again: {how}") from problem
    return world


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        ended = run(int(argument))
        print(f"seed {argument} ({kind_of(ended.seed)}): {ended.begun} tasks begun, {ended.steps} checks")
        for one in ended.accepted:
            for event in ended.store._events[one]:
                print(f"  {one} {event.seq:3} {event.ts - 1_735_689_600:8.3f} {event.event_type} {event.payload}")
