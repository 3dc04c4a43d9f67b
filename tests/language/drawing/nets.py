"""Small nets for drawing, written by hand or grown from a seed."""

from __future__ import annotations

import random
from typing import Any

from noetl.net.net import FORMAT, Net, Transition
from noetl.net.routing import Arc, Mode, Router
from noetl.net.task import Task
from noetl.templates.values import Authored


def guard(text: str | None) -> Authored | None:
    return None if text is None else Authored(f"{{{{ {text} }}}}")


def step(name: str, *arcs: str | tuple[str, str], mode: Mode = Mode.EXCLUSIVE, **parts: Any) -> Transition:
    """A step with arcs to names, or to (name, guard)."""
    pairs = [(arc, None) if isinstance(arc, str) else arc for arc in arcs]
    made = tuple(Arc(target=target, when=guard(when)) for target, when in pairs)
    return Transition(name=name, router=Router(arcs=made, mode=mode) if made else None, **parts)


def net(*steps: Transition, name: str = "drawn") -> Net:
    return Net(format=FORMAT, dialect="v10", name=name, path="tests/drawn", entry=steps[0].name, transitions=steps)


def grown(seed: int, size: int = 24) -> Net:
    """A net with branches, meetings, cycles and long ways."""
    chance = random.Random(seed)
    names = [f"step_{number}" for number in range(size)]
    steps = []
    for index, name in enumerate(names):
        onward = names[index + 1 : index + 6]
        targets = chance.sample(onward, k=min(len(onward), chance.choice((1, 1, 1, 2, 3))))
        if chance.random() < 0.2:
            targets.append(names[chance.randrange(index + 1)])
        arcs = [(target, chance.choice((None, "event.name == 'step.failed'", "ctx.n > 1"))) for target in targets]
        tasks = tuple(Task(name=f"task_{n}", kind="http") for n in range(chance.randrange(4)))
        steps.append(step(name, *((t, g) if g else t for t, g in arcs), tasks=tasks))
    return net(*steps)


def thirty() -> Net:
    return grown(7, 30)
