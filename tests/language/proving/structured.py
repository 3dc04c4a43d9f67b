"""Structured nets at random: sequences, choices, forks with their joins, and loops, nested; and ways to break them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.language.proving.brute_force import Game, Rule


@dataclass
class Fork:
    """A fork with its join, and the steps whose only arc leads to that join."""

    step: str
    join: str
    lasts: list[str]


@dataclass
class Structured:
    """A sound net by construction; `start` is its entry, `end` its only end."""

    game: Game = field(default_factory=dict)
    forks: list[Fork] = field(default_factory=list)
    start: str = "start"
    end: str = "end"


class Builder:
    def __init__(self, seed: int, size: int) -> None:
        self._dice = random.Random(seed)
        self._left = size
        self._count = 0
        self._forks_around = 0
        self.made = Structured()

    def build(self) -> Structured:
        self.made.game["end"] = Rule()
        first = self._block("end", depth=3)
        self.made.game["start"] = Rule(arcs=((first, False, 1),))
        return self.made

    def _name(self) -> str:
        self._count += 1
        self._left -= 1
        return f"s{self._count}"

    def _block(self, after: str, depth: int) -> str:
        """A block that leads to `after`; gives its first step."""
        if depth == 0 or self._left <= 0:
            return self._task(after)
        kind = self._dice.choice(["task", "sequence", "choice", "fork", "fork", "loop"])
        if kind == "sequence":
            return self._block(self._block(after, depth - 1), depth - 1)
        if kind == "choice":
            return self._choice(after, depth)
        if kind == "fork":
            return self._fork(after, depth)
        return self._loop(after, depth) if kind == "loop" else self._task(after)

    def _task(self, after: str) -> str:
        name = self._name()
        self.made.game[name] = Rule(arcs=((after, False, 1),))
        return name

    def _choice(self, after: str, depth: int) -> str:
        name = self._name()
        one, other = self._block(after, depth - 1), self._block(after, depth - 1)
        self.made.game[name] = Rule(arcs=((one, True, 1), (other, False, 1)))
        return name

    def _loop(self, after: str, depth: int) -> str:
        """The body, then a step that goes back or on."""
        check, head = self._name(), self._name()
        body = self._block(check, depth - 1)
        self.made.game[head] = Rule(arcs=((body, False, 1),))
        self.made.game[check] = Rule(arcs=((head, True, 1), (after, False, 1)))
        return head

    def _fork(self, after: str, depth: int) -> str:
        fork, join = self._name(), self._name()
        branches = self._dice.randint(2, 3)
        lasts = [self._task(join) for _ in range(branches)]
        self._forks_around += 1
        firsts = [self._block(last, depth - 1) for last in lasts]
        self._forks_around -= 1
        mode = self._dice.choice(["all", "all", "any", "count", "active"])
        # A firing of one arc opens no group (O-01): inside another fork its join would wait for the outer tokens.
        optional = mode != "count" and not self._forks_around and self._dice.random() < 0.3
        arcs = tuple((first, optional and at == 0, 1) for at, first in enumerate(firsts))
        self.made.game[fork] = Rule(arcs=arcs, inclusive=True)
        count = self._dice.randint(1, branches) if mode == "count" else 0
        self.made.game[join] = Rule(arcs=((after, False, 1),), join=mode, count=count)
        self.made.forks.append(Fork(fork, join, lasts))
        return fork


def structured(seed: int, size: int = 12) -> Structured:
    return Builder(seed, size).build()


def rerouted(net: Structured, fork: Fork) -> Game:
    """One branch ends beside the join its siblings wait at."""
    join = replace(net.game[fork.join], join="all", count=0)
    return {**net.game, "aside": Rule(), fork.join: join, fork.lasts[-1]: Rule(arcs=(("aside", False, 1),))}


def crossed(net: Structured, fork: Fork) -> Game:
    """The branches come to two joins that both wait for all of them."""
    join = replace(net.game[fork.join], join="all", count=0)
    return {**net.game, "other": join, fork.join: join, fork.lasts[-1]: Rule(arcs=(("other", False, 1),))}


def overcounted(net: Structured, fork: Fork) -> Game:
    """The join waits for one token more than the fork has branches."""
    join = replace(net.game[fork.join], join="count", count=len(fork.lasts) + 1)
    return {**net.game, fork.join: join}


def endless(net: Structured) -> Game:
    """The former end becomes an endless cycle."""
    return {**net.game, net.end: Rule(arcs=((net.end, False, 1),))}


def growing(net: Structured, fork: Fork) -> Game:
    """One branch leads back to its own fork."""
    return {**net.game, fork.lasts[0]: Rule(arcs=((fork.step, True, 1), (fork.join, False, 1)))}
