"""Steps as numbers, and every way in which a run of a step can end, without data.

Guards are over-approximated: one that is not constant and not decided by the event's name may be true or false
(ADV-06). This module knows only the tokens that the end of a run creates, not the run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from noetl.net.net import Transition
from noetl.net.routing import Join


class StepEnding(msgspec.Struct, frozen=True):
    """One arc as tokens see it. Steps are numbers here: the order of the text, and cheap to compare."""

    address: str
    index: int
    # Several if the target is computed: exactly one of them is taken (C-27).
    targets: tuple[int, ...]
    tokens: int = 1
    # Steps whose tokens it withdraws.
    cancels: tuple[int, ...] = ()


class Firing(msgspec.Struct, frozen=True):
    """One way a run can end. Nothing in `fixed` and `optional`: the token ends. An unrouted failure is no firing
    (ROUTE-08): it is never unsound."""

    event: str
    fixed: tuple[StepEnding, ...] = ()  # all of these fire
    # Any of these may fire: their guards read data.
    optional: tuple[StepEnding, ...] = ()
    stops: bool = False  # the whole execution ends
    # Only if `fixed` is empty: none of `optional` may fire, and then the token ends.
    may_end: bool = False

    @property
    def ends(self) -> bool:
        """Whether the token may end here on this event."""
        return not self.stops and not self.fixed and (not self.optional or self.may_end)

    @property
    def ways(self) -> tuple[StepEnding, ...]:
        return self.fixed + self.optional

    @property
    def alone(self) -> tuple[StepEnding, ...]:
        """The arcs that may be the only one to fire, with a single token: no group is opened then."""
        if self.fixed:
            return self.fixed if len(self.fixed) == 1 and self.fixed[0].tokens == 1 else ()
        return tuple(way for way in self.optional if way.tokens == 1)

    @property
    def most_tokens(self) -> int:
        return sum(way.tokens for way in self.ways)


class NetStep(msgspec.Struct, frozen=True):
    """A transition of the net. `written` False: the implicit `end` place of v2-case (C-40)."""

    index: int
    name: str
    firings: tuple[Firing, ...]
    join: Join | None = None
    may_deny: bool = False
    written: bool = True

    @property
    def successors(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(t for f in self.firings for way in f.ways for t in way.targets))

    @property
    def may_end(self) -> bool:
        return self.may_deny or any(f.stops or f.ends for f in self.firings)

    @property
    def sweeps(self) -> bool:
        """Whether its run takes other tokens away: all of them, or those its join did not wait for."""
        return any(f.stops for f in self.firings) or (self.join is not None and self.join.rest == "cancel")

    @property
    def forks(self) -> bool:
        return any(f.most_tokens >= 2 for f in self.firings)


class Graph(msgspec.Struct, frozen=True):
    """`guessed`: arcs with an unknown computed target, by address; they may lead anywhere."""

    steps: tuple[NetStep, ...]
    entry: int
    guessed: tuple[str, ...] = ()

    def __getitem__(self, index: int) -> NetStep:
        return self.steps[index]

    def name(self, index: int) -> str:
        return self.steps[index].name

    @property
    def cancelled(self) -> frozenset[int]:
        """Steps whose tokens some arc withdraws."""
        return frozenset(t for _, _, way in self.ways() for t in way.cancels)

    @property
    def withdrawable(self) -> set[int]:
        """Steps where a token may be taken away: by another one's cancel list, by a join with `rest: cancel`, or with
        the whole execution. Only a fork makes another one, so both must come after the same fork."""
        lists = [(step.index, target) for step, _, way in self.ways() for target in way.cancels]
        sweeping = {step.index for step in self.steps if step.sweeps}
        found: set[int] = set()
        for fork in (step for step in self.steps if step.forks and (lists or sweeping)):
            after = self.reachable(*fork.successors)
            found |= after if sweeping & after else {target for source, target in lists if {source, target} <= after}
        return found

    def ways(self) -> Iterator[tuple[NetStep, Firing, StepEnding]]:
        for step in self.steps:
            for firing in step.firings:
                for way in firing.ways:
                    yield step, firing, way

    def reachable(self, *starts: int) -> set[int]:
        """Steps that a token from one of `starts` can come to, the starts included."""
        return closure(starts, lambda at: self.steps[at].successors)

    def leading_to(self, goals: set[int]) -> set[int]:
        """Steps from which one of `goals` can be reached, the goals included."""
        before: dict[int, list[int]] = {}
        for step in self.steps:
            for target in step.successors:
                before.setdefault(target, []).append(step.index)
        return closure(goals, lambda at: before.get(at, ()))


# Boundary events: how a step's run can end, as far as its compiled form tells (ROUTE-09, LOOP-09, TMR-02).

FAILED = "step.failed"
# Not a boundary event: the alternative of a timeout block is taken without arcs (TMR-05).
TIMED_OUT = "step.timeout"

_ALIASES: dict[str, frozenset[str] | None] = {
    "call.done": frozenset({"step.done", "loop.done"}),
    "ToolCompleted": frozenset({"step.done", "loop.done"}),
    "call.error": frozenset({FAILED}),
    "ToolErrored": frozenset({FAILED}),
    "task.processed": None,  # any of them
    "step.exit": None,
}


def boundary_events(step: Transition) -> tuple[str, ...]:
    """The events that can end a run of `step`, failures last."""
    events: list[str] = []
    if step.loop is not None:
        events.append("loop.done")
    elif step.waits:
        events += _wait_events(step)
    else:
        events.append("step.done")
    if step.handlers is not None and step.handlers.interrupting:
        events.append("step.interrupted")
    return (*events, FAILED)


def _wait_events(step: Transition) -> list[str]:
    events = []
    if step.timer is not None:
        events.append("timer.fired")
        if step.timer.cancellable:
            events.append("timer.cancelled")
    if step.message is not None:
        events.append("message.received")
        if step.message.timeout is not None and step.message.timeout_action == "escalate":
            events.append("message.timeout")
    if step.signal is not None:
        events.append("signal.received")
    if step.human_task is not None:
        events.append("task.completed")
    return events


def same_event(written: object, event: str) -> bool:
    """Whether `event.name == written` holds when the boundary event is `event`."""
    if not isinstance(written, str):
        return False
    if written in _ALIASES:
        meant = _ALIASES[written]
        return meant is None or event in meant
    return written == event


Node = TypeVar("Node")


def closure(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The starts, and every node that can be reached from them."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for node in following(waiting.pop()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def components(successors: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Tarjan's components, those without exits first; nodes that are only targets must be keys too."""
    order: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_nodes: list[Node] = []
    is_open: set[Node] = set()
    found: list[list[Node]] = []
    for root in successors:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        # A stack of our own: a playbook of a thousand steps in a row would end Python's recursion.
        walk = [(root, iter(successors[root]))]
        while walk:
            node, rest = walk[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_nodes.append(target)
                    is_open.add(target)
                    walk.append((target, iter(successors[target])))
                    break
                if target in is_open:
                    low[node] = min(low[node], order[target])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    # From the end of the list: a component is what was opened since its root, and most components are
                    # small.
                    cut = _last_index(open_nodes, node)
                    found.append(open_nodes[cut:])
                    is_open.difference_update(open_nodes[cut:])
                    del open_nodes[cut:]
    return found


def _last_index(nodes: list[Node], wanted: Node) -> int:
    return next(i for i in range(len(nodes) - 1, -1, -1) if nodes[i] == wanted)


def cycles(successors: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The components that hold a cycle, each in the order of the mapping's keys."""
    position = {node: at for at, node in enumerate(successors)}
    return [
        sorted(part, key=position.__getitem__)
        for part in components(successors)
        if len(part) > 1 or part[0] in successors[part[0]]
    ]


def path(successors: Mapping[Node, Iterable[Node]], start: Node, goals: Iterable[Node]) -> list[Node] | None:
    """A shortest walk of at least one edge from `start` to one of `goals`, both ends included."""
    wanted = set(goals)
    came: dict[Node, Node] = {}
    layer = [start]
    while layer:
        following = []
        for node in layer:
            for target in successors.get(node, ()):
                if target in wanted:
                    walk = [target, node]
                    while walk[-1] != start:
                        walk.append(came[walk[-1]])
                    return walk[::-1]
                # The start is not in `came`, so that a walk may come back to it.
                if target not in came and target != start:
                    came[target] = node
                    following.append(target)
        layer = following
    return None
