"""Witnesses: a finding as a firing sequence, in words and as moves that a screen can play (beyond.md §2).

A witness shows the tokens that matter and leaves the others where they are. `Marking` is what it moves: steps
with the tokens they hold, in the order they came.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.language.proving.graph import Graph

_NAMED = 4  # names listed in one text before "and n more"


class Move(msgspec.Struct, frozen=True):
    """One firing: the step whose run ended, the arcs it took (addresses of the debug map), the tokens afterwards."""

    step: str
    arcs: tuple[str, ...]
    tokens: tuple[str, ...]
    text: str


class Marking:
    """Tokens on steps, and the moves made so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tokens: list[int] = [graph.entry]
        self.moves: list[Move] = []

    def fire(self, step: int, arcs: Sequence[str], targets: Sequence[int], text: str) -> None:
        """Take one token off `step` and put one on each of `targets`."""
        if step in self._tokens:
            self._tokens.remove(step)
        self._tokens += targets
        self._note(step, arcs, text)

    def join(self, step: int) -> None:
        """All tokens held at a join become the one that runs it."""
        self._tokens = [token for token in self._tokens if token != step] + [step]
        self._note(step, (), f"{self._graph.name(step)} joins them and runs")

    def add_remark(self, step: int, text: str) -> None:
        """Add a remark; nothing moves."""
        self._note(step, (), text)

    def _note(self, step: int, arcs: Sequence[str], text: str) -> None:
        tokens = tuple(self._graph.name(token) for token in self._tokens)
        self.moves.append(Move(self._graph.name(step), tuple(arcs), tokens, text))


def listed(names: Sequence[str]) -> str:
    """Names in one line, the many cut short."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return ", ".join(names)


def sent(graph: Graph, step: int, targets: Sequence[int], event: str) -> str:
    """The text of a firing: `a -> b, c`, with the event where it is not the usual one."""
    reason = "" if event in ("step.done", "loop.done", "case") else f" on {event}"
    return f"{graph.name(step)} -> {listed([graph.name(target) for target in targets])}{reason}"
