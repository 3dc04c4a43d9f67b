"""Steps as numbers, and every way a run of one can end, without data.

Guards are over-approximated: one that is not constant and not decided by the event's name may be true or false
(ADV-06). What a run does inside is not known here; only which tokens its end makes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.net.net import Transition
from noetl.net.routing import Join


class StepEnding(msgspec.Struct, frozen=True):
    """One arc as tokens see it. Steps are numbers here: the order of the text, and cheap to compare."""

    address: str
    index: int
    targets: tuple[int, ...]  # several: a computed target, of which one will be taken (C-27)
    tokens: int = 1
    cancels: tuple[int, ...] = ()  # steps whose tokens it withdraws


class Firing(msgspec.Struct, frozen=True):
    """One way a run can end. Nothing in `fixed` and `optional`: the token ends. An unrouted failure is no firing
    (ROUTE-08): it is never unsound."""

    event: str
    fixed: tuple[StepEnding, ...] = ()  # all of these fire
    optional: tuple[StepEnding, ...] = ()  # any of these may: their guards read data
    stops: bool = False  # the whole execution ends
    may_end: bool = False  # when `fixed` is empty: all of `optional` may stay silent, and the token ends

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
    """`guessed`: arcs whose computed target could not be told, by address; they may lead anywhere."""

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
        seen, waiting = set(starts), list(starts)
        while waiting:
            for target in self.steps[waiting.pop()].successors:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    def leading_to(self, goals: set[int]) -> set[int]:
        """Steps from which one of `goals` can be reached, the goals included."""
        before: dict[int, list[int]] = {}
        for step in self.steps:
            for target in step.successors:
                before.setdefault(target, []).append(step.index)
        seen, waiting = set(goals), list(goals)
        while waiting:
            for source in before.get(waiting.pop(), ()):
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return seen


# Boundary events: how a step's run can end, as far as its compiled form tells (ROUTE-09, LOOP-09, TMR-02).

FAILED = "step.failed"
TIMED_OUT = "step.timeout"  # not a boundary event: the alternative of a timeout block is taken without arcs (TMR-05)

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
