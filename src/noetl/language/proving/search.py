"""Search: all markings of the reduced net, one after another, within a budget.

Stubborn sets keep it small: a token that nothing can withdraw, and whose move affects no other token, is moved alone;
all interleavings with the others have the same result. Used where order matters: cancel lists, `rest: block | cancel`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from noetl.language.proving.fixpoint import Item, MarkedToken, Settling, TokenGroup, ordered, tokens, withdraw_tokens
from noetl.language.proving.forks_and_joins import NO_STEP, Fault
from noetl.language.proving.graph import Firing, Graph, StepEnding
from noetl.language.proving.token_outcomes import OutOfBudget
from noetl.language.proving.witness import Move, sent

# Reduction before the search: steps that only pass one token on (series) are skipped, so there are fewer states.


class Shortcuts:
    """For each step, the next one at which something can be decided, and the steps passed on the way."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._kept = graph.cancelled
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}

    def __getitem__(self, step: int) -> tuple[int, tuple[int, ...]]:
        if step not in self._known:
            passed: list[int] = []
            at = step
            # A cycle of steps with a single way each would be followed forever; the token stays at its beginning.
            while (following := self._only_way(at)) is not None and following not in passed and following != step:
                passed.append(at)
                at = following
            self._known[step] = at, tuple(passed)
        return self._known[step]

    def _only_way(self, step: int) -> int | None:
        node = self._graph[step]
        # A step that an arc cancels is kept: a token can be withdrawn only while it is there.
        if node.join is not None or node.may_deny or step in self._kept or len(node.firings) != 1:
            return None
        firing = node.firings[0]
        if firing.stops or firing.optional or len(firing.fixed) != 1:
            return None
        way = firing.fixed[0]
        if way.tokens > 1 or len(way.targets) > 1 or way.cancels or way.targets[0] in self._kept:
            return None
        return way.targets[0]


# Placeholder for a removed token until its successors are inserted.
_HERE = MarkedToken(-1)
# Guarded arcs of one firing that are tried in all combinations: 2**10 is still fast.
_OPTIONAL = 10


class SearchStep(msgspec.Struct, frozen=True):
    """One edge of the search: the marking it leads to, its moves, and its faults."""

    marking: TokenGroup
    moves: tuple[Move, ...]
    faults: tuple[Fault, ...] = ()


class StateSearch:
    """Explores from the start token. `faults` maps each fault to its witness; they hold even if the budget ended before
    the search was `finished`."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self._graph = graph
        self._budget = budget
        self._shortcuts = Shortcuts(graph)
        self._settling = Settling(graph)
        self._loud = _loud_steps(graph)
        self._parents: dict[TokenGroup, tuple[TokenGroup, tuple[Move, ...]] | None] = {}
        self.faults: dict[Fault, tuple[Move, ...]] = {}
        self.states = 0
        self.finished = True
        try:
            self._explore()
        except OutOfBudget:
            self.finished = False

    def _explore(self) -> None:
        # Depth first: the stubborn set may be used only if it leads to no marking of the current path (`_steps`).
        first, _ = self._shortcuts[self._graph.entry]
        start = TokenGroup((MarkedToken(first),))
        self._parents[start] = None
        on_path = {start}
        # A stack instead of recursion: a path may have as many states as the budget allows.
        path: list[tuple[TokenGroup, Iterator[SearchStep]]] = [(start, self._steps(start, on_path))]
        while path:
            marking, steps = path[-1]
            step = next(steps, None)
            if step is None:
                path.pop()
                on_path.discard(marking)
                continue
            for fault in step.faults:
                if fault not in self.faults:
                    self.faults[fault] = (*self._trace(marking), *step.moves)
            if step.marking not in self._parents:
                self._parents[step.marking] = (marking, step.moves)
                self._judge(step.marking)
                on_path.add(step.marking)
                path.append((step.marking, self._steps(step.marking, on_path)))

    def _judge(self, marking: TokenGroup) -> None:
        """Count the marking, and record a deadlock if every token in it waits."""
        self.states += 1
        if self.states > self._budget:
            raise OutOfBudget
        left = list(tokens(marking))
        # Without tokens it is not a deadlock: the execution ends.
        if left and all(token.waits for token in left):
            joins = tuple(sorted({token.step for token in left}))
            fault = Fault("W_DEADLOCK", joins)
            if fault not in self.faults:
                self.faults[fault] = self._trace(marking)

    def _trace(self, marking: TokenGroup) -> tuple[Move, ...]:
        moves: list[Move] = []
        at = self._parents[marking]
        while at is not None:
            # Each marking keeps its parent, not its path: paths would cost the square of their number.
            moves[:0] = at[1]
            at = self._parents[at[0]]
        return tuple(moves)

    def _steps(self, marking: TokenGroup, on_path: set[TokenGroup]) -> Iterator[SearchStep]:
        """The moves to try: those of one quiet token if there is one and it closes no cycle, else all."""
        running = list(dict.fromkeys(token for token in tokens(marking) if not token.waits))
        # The stubborn set: the moves of a quiet token commute with those of all others, so one order of them shows
        # every fault.
        quiet = next((token for token in running if token.step not in self._loud), None)
        if quiet is not None:
            alone = list(self._moves(marking, next(_places_of_tokens(marking, quiet))))
            # A cycle of quiet moves would postpone those of the others forever; then all are tried.
            if not any(step.marking in on_path for step in alone):
                yield from alone
                return
        for token in running:
            for at in _places_of_tokens(marking, token):
                yield from self._moves(marking, at)

    def _moves(self, marking: TokenGroup, at: tuple[int, ...]) -> Iterator[SearchStep]:
        """Every way the token at `at` (positions from the outermost level inwards) can go."""
        token = _item(marking, at)
        assert isinstance(token, MarkedToken)
        node = self._graph[token.step]
        grouped = len(at) > 1
        if node.may_deny:
            # Not `ended`: W_TOKEN_LEFT is about tokens that end by themselves, and this refusal is intended.
            yield self._step(marking, at, [], (), f"{node.name} refuses its token", ended=False)
        for firing in node.firings:
            if firing.stops:
                # The execution ends here, so no fault can follow.
                continue
            for ways in _firing_sets(firing):
                if not ways:
                    yield self._step(marking, at, [], (), f"{node.name} ends", ended=grouped)
                    continue
                for targets in _spread(ways):
                    text = sent(self._graph, token.step, targets, firing.event)
                    made = self._new_items(targets, grouped)
                    yield self._step(marking, at, made, ways, text, ended=False)

    def _new_items(self, targets: tuple[int, ...], grouped: bool) -> list[Item]:
        if len(targets) == 1:
            return [self._entering(targets[0], grouped)]
        return [TokenGroup(ordered([self._entering(target, True) for target in targets]))]

    def _entering(self, target: int, grouped: bool) -> MarkedToken:
        at, _ = self._shortcuts[target]
        return MarkedToken(at, waits=grouped and self._graph[at].join is not None)

    def _step(
        self,
        marking: TokenGroup,
        at: tuple[int, ...],
        made: list[Item],
        ways: tuple[StepEnding, ...],
        text: str,
        *,
        ended: bool,
    ) -> SearchStep:
        token = _item(marking, at)
        assert isinstance(token, MarkedToken)
        # In two steps: tokens that the arcs cancel are withdrawn after the token has left, and before the new ones
        # exist.
        after = _with_replaced_token(marking, at, [_HERE], token.step if ended else NO_STEP)
        cancelled = frozenset(step for way in ways for step in way.cancels)
        # Only tokens that existed before: the firing may put a new token on a step it cancels.
        if cancelled:
            after = withdraw_tokens(after, cancelled)
        after = _with_replaced_token(after, next(_places_of_tokens(after, _HERE)), made, NO_STEP)
        after, faults = self._settling.settle(after)
        names = tuple(self._graph.name(t.step) for t in tokens(after))
        move = Move(self._graph.name(token.step), tuple(dict.fromkeys(w.address for w in ways)), names, text)
        return SearchStep(after, (move,), tuple(faults))


def _loud_steps(graph: Graph) -> frozenset[int]:
    """Steps whose tokens may be withdrawn, or whose moves withdraw others, stop all, or race to a blocking join."""
    # Such a join may withdraw a token at any step, so no token is quiet.
    if any(step.join is not None and step.join.rest == "cancel" for step in graph.steps):
        return frozenset(range(len(graph.steps)))
    racing = {s.index for s in graph.steps if s.join is not None and s.join.rest == "block"}
    return graph.cancelled | {
        step.index
        for step in graph.steps
        if any(f.stops or any(w.cancels for w in f.ways) for f in step.firings) or racing & set(step.successors)
    }


def _firing_sets(firing: Firing) -> Iterator[tuple[StepEnding, ...]]:
    """The sets of arcs that can fire together; the empty one where the token may end."""
    # There are two to the power of their number: give up and report that, instead of searching a part.
    if len(firing.optional) > _OPTIONAL:
        raise OutOfBudget
    for size in range(len(firing.optional) + 1):
        for extra in combinations(firing.optional, size):
            ways = firing.fixed + extra
            if ways or firing.ends:
                yield ways


def _spread(ways: tuple[StepEnding, ...]) -> Iterator[tuple[int, ...]]:
    """The targets of `ways`, one for each token; a computed target is one of its candidates."""
    if not ways:
        yield ()
        return
    for target in ways[0].targets:
        for rest in _spread(ways[1:]):
            yield (target,) * ways[0].tokens + rest


def _places_of_tokens(group: TokenGroup, wanted: MarkedToken) -> Iterator[tuple[int, ...]]:
    """The places of tokens like `wanted` in the nested groups, one for each level that has some."""
    # Equal tokens of one level are interchangeable, so one of them represents all.
    if wanted in group.items:
        yield (group.items.index(wanted),)
    for position, item in enumerate(group.items):
        if isinstance(item, TokenGroup):
            for inner in _places_of_tokens(item, wanted):
                yield (position, *inner)


def _item(group: TokenGroup, at: tuple[int, ...]) -> Item:
    item = group.items[at[0]]
    return _item(item, at[1:]) if isinstance(item, TokenGroup) and len(at) > 1 else item


def _with_replaced_token(group: TokenGroup, at: tuple[int, ...], made: list[Item], ended: int) -> TokenGroup:
    """The marking with the token at `at` replaced by `made`; `ended` is the step of a token that ended by itself."""
    items = list(group.items)
    if len(at) == 1:
        items[at[0] : at[0] + 1] = made
        # Only the first end is kept: one is enough for the finding, and each further one would be another marking.
        noted = ended if group.ended == NO_STEP else group.ended
        return group._replace(items=ordered(items), ended=noted)
    inner = items[at[0]]
    assert isinstance(inner, TokenGroup)
    items[at[0]] = _with_replaced_token(inner, at[1:], made, ended)
    return group._replace(items=ordered(items))
