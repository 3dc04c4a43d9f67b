"""Nets for tests of the analysis: written by hand, from a game of `brute_force`, or at random."""

from __future__ import annotations

import random
from typing import Any

from noetl.net.net import FORMAT, Net, Transition
from noetl.net.routing import Admission, AdmitRule, Arc, Join, JoinMode, Mode, Router
from noetl.templates.values import Authored
from tests.language.proving.brute_force import Game, Rule


def text(template: Any) -> Authored:
    return Authored(template)


def arc(target: str, when: Any = None, **more: Any) -> Arc:
    return Arc(target=target, when=None if when is None else Authored(when), **more)


def step(name: str, *arcs: Arc, fork: bool = False, join: Join | str | int | None = None, **more: Any) -> Transition:
    """A transition; `join` as a playbook writes it: all, any, active or a count."""
    if isinstance(join, int):
        join = Join(mode=JoinMode.COUNT, count=join)
    elif isinstance(join, str):
        join = Join(mode=JoinMode(join))
    if arcs and "router" not in more:
        more["router"] = Router(arcs=arcs, mode=Mode.INCLUSIVE if fork else Mode.EXCLUSIVE)
    return Transition(name=name, join=join, **more)


def net(*steps: Transition, **more: Any) -> Net:
    more.setdefault("dialect", "v10")
    return Net(
        format=FORMAT, name="t", path="tests/t", entry=more.pop("entry", steps[0].name), transitions=steps, **more
    )


def from_game(game: Game, entry: str) -> Net:
    """The net that plays `game`: each guard reads a value of its own, so any may be true or false."""
    steps = []
    for name, rule in game.items():
        cancels = dict(rule.cancels)
        arcs = tuple(
            arc(
                target,
                f"{{{{ workload.{name}_{at} }}}}" if guarded else None,
                tokens=tokens,
                cancel=cancels.get(at, ()),
            )
            for at, (target, guarded, tokens) in enumerate(rule.arcs)
        )
        join = Join(mode=JoinMode(rule.join), count=rule.count or None, rest=rule.rest) if rule.join else None
        deny = (AdmitRule(when=Authored(f"{{{{ workload.{name} }}}}"), allow=True),) if rule.may_deny else ()
        steps.append(
            step(
                name,
                *arcs,
                fork=rule.inclusive,
                join=join,
                admission=Admission(rules=deny) if deny else None,
                ends_execution=rule.ends_execution,
            )
        )
    return net(*steps, entry=entry)


def random_game(seed: int, size: int = 6, *, withdrawing: bool = False) -> tuple[Game, str]:
    """An unstructured net: arcs, forks and joins at random; `withdrawing`: with cancel lists and every `rest` too."""
    dice = random.Random(seed)
    names = [f"s{i}" for i in range(dice.randint(3, size))]
    game: Game = {}
    for at, name in enumerate(names):
        backwards = dice.random() < 0.15
        choices = names if backwards else names[at + 1 :]
        targets = dice.sample(choices, min(len(choices), dice.choice([0, 1, 1, 2, 2, 3]))) if choices else []
        inclusive = dice.random() < 0.5
        join = dice.choice([None, None, "all", "any", "count", "active"]) if at else None
        game[name] = Rule(
            arcs=tuple((t, dice.random() < 0.3, 2 if dice.random() < 0.06 else 1) for t in targets),
            inclusive=inclusive,
            join=join,
            count=dice.randint(2, 3) if join == "count" else 0,
            may_deny=dice.random() < 0.08,
            ends_execution=dice.random() < 0.04,
            rest=dice.choice(["ignore", "block", "cancel"]) if withdrawing and join in ("any", "count") else "ignore",
            cancels=((0, (dice.choice(names),)),) if withdrawing and targets and dice.random() < 0.2 else (),
        )
    return game, names[0]
