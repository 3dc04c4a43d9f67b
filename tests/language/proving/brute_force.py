"""A token game played in full: every interleaving of every token, written from the rules of O-01 alone.

It shares no code with `noetl.language.proving` and knows nothing clever, so that the two can be compared. A game is
a table
of steps; a state is a tuple of tokens, each with the fork groups it belongs to (outermost first), and the history
each group needs. Small nets only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations


@dataclass(frozen=True)
class Rule:
    """A step of the game. `arcs` are (target, guarded, tokens); `cancels` maps an arc's position to steps."""

    arcs: tuple[tuple[str, bool, int], ...] = ()
    inclusive: bool = False
    join: str | None = None  # all | any | count | active
    count: int = 0
    rest: str = "ignore"
    may_deny: bool = False
    ends_execution: bool = False
    cancels: tuple[tuple[int, tuple[str, ...]], ...] = ()


Game = dict[str, Rule]

CROWD = 9  # tokens in one state; a net that makes more is too large for this game, or grows without end


@dataclass
class Report:
    """The outcomes of the token game. `complete` False: too many states, nothing is claimed."""

    deadlock: bool = False
    unfilled: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    no_end: bool = False
    visited: set[str] = field(default_factory=set)
    complete: bool = True
    states: int = 0

    @property
    def sound(self) -> bool:
        return not (self.deadlock or self.unfilled or self.left or self.no_end)


# A token is (groups, step, waiting). The notes of a state are facts about living groups:
# ("fired", group, join), ("ended", group): a token of that level ended unasked.
Token = tuple[tuple[int, ...], str, bool]
State = tuple[tuple[Token, ...], frozenset[tuple[object, ...]]]


def play(game: Game, entry: str, limit: int = 4000) -> Report:
    report = Report()
    reach = _reach(game)
    start = _canonical(_settle(((((), entry, False),), frozenset()), game, reach, report))
    edges: dict[State, set[State]] = {}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        if state in edges:
            continue
        if len(edges) >= limit or len(state[0]) > CROWD:
            report.complete = False
            return report
        edges[state] = {_canonical(_settle(after, game, reach, report)) for after in _moves(state, game, report)}
        waiting.extend(edges[state])
        if not edges[state] and state[0]:
            report.deadlock = True
    report.states = len(edges)
    report.no_end = _has_livelock(edges)
    return report


def _has_livelock(edges: dict[State, set[State]]) -> bool:
    before: dict[State, set[State]] = {}
    for source, targets in edges.items():
        for target in targets:
            before.setdefault(target, set()).add(source)
    seen = {state for state, targets in edges.items() if not targets}
    waiting = list(seen)
    while waiting:
        for source in before.get(waiting.pop(), ()):
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return len(seen) < len(edges)


def _reach(game: Game) -> dict[str, set[str]]:
    reach = {}
    for name in game:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for target, _, _ in game[waiting.pop()].arcs:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        reach[name] = seen
    return reach


def _moves(state: State, game: Game, report: Report) -> list[State]:
    tokens, notes = state
    after: list[State] = []
    for position, (groups, step, waits) in enumerate(tokens):
        if waits:
            continue
        report.visited.add(step)
        rule = game[step]
        others = tokens[:position] + tokens[position + 1 :]
        if rule.may_deny:
            after.append(_gone((others, notes), groups, asked=True))
        if rule.ends_execution:
            after.append(((), frozenset()))
            continue
        for chosen in _choices(rule):
            made = [target for at in chosen for target in [rule.arcs[at][0]] * rule.arcs[at][2]]
            cancelled = {step for at in chosen for step in dict(rule.cancels).get(at, ())}
            if not made:
                after.append(_gone((others, notes), groups, asked=False))
                continue
            inside = groups if len(made) == 1 else (*groups, _fresh(tokens, notes))
            new = tuple((inside, target, bool(inside) and game[target].join is not None) for target in made)
            after.append(_withdraw(others, new, notes, cancelled))
    return after


def _choices(rule: Rule) -> list[tuple[int, ...]]:
    return list(dict.fromkeys([*_on_success(rule), *_on_failure(rule)]))


def _on_failure(rule: Rule) -> list[tuple[int, ...]]:
    """A failure is taken only by arcs whose own guard is true (ROUTE-05); one that none takes is left out."""
    guarded = [at for at, (_, is_guarded, _) in enumerate(rule.arcs) if is_guarded]
    sizes = range(1, len(guarded) + 1) if rule.inclusive else [1]
    return [chosen for size in sizes for chosen in combinations(guarded, size)]


def _on_success(rule: Rule) -> list[tuple[int, ...]]:
    if not rule.inclusive:
        found: list[tuple[int, ...]] = []
        for at, (_, guarded, _) in enumerate(rule.arcs):
            found.append((at,))
            if not guarded:
                return found
        return [*found, ()]
    always = tuple(at for at, (_, guarded, _) in enumerate(rule.arcs) if not guarded)
    maybe = [at for at, (_, guarded, _) in enumerate(rule.arcs) if guarded]
    return [always + extra for size in range(len(maybe) + 1) for extra in combinations(maybe, size)]


def _fresh(tokens: tuple[Token, ...], notes: frozenset[tuple[object, ...]]) -> int:
    used = {group for groups, _, _ in tokens for group in groups} | {note[1] for note in notes}
    return max((g for g in used if isinstance(g, int)), default=0) + 1


def _gone(state: State, groups: tuple[int, ...], *, asked: bool) -> State:
    """One token of `groups` has ended; remember it for its group unless it was refused or dropped."""
    tokens, notes = state
    if groups and not asked:
        notes = notes | {("ended", groups[-1])}
    return _closed((tokens, notes), groups)


def _closed(state: State, groups: tuple[int, ...]) -> State:
    """Groups that have lost their last token: one that joined nothing and had an end hands it to the group around."""
    tokens, notes = state
    for depth in range(len(groups), 0, -1):
        group = groups[depth - 1]
        if any(group in held for held, _, _ in tokens):
            break
        mine = {note for note in notes if note[1] == group}
        joined = any(note[0] == "fired" for note in mine)
        notes = notes - mine
        if ("ended", group) in mine and not joined and depth > 1:
            notes = notes | {("ended", groups[depth - 2])}
    return tokens, notes


def _withdraw(
    others: tuple[Token, ...], new: tuple[Token, ...], notes: frozenset[tuple[object, ...]], steps: set[str]
) -> State:
    """A cancel list takes away what stood there before; the new tokens stay."""
    gone = [token for token in others if token[1] in steps]
    state = (tuple(token for token in others if token[1] not in steps) + new, notes)
    for groups, _, _ in gone:
        state = _closed(state, groups)
    return state


def _settle(state: State, game: Game, reach: dict[str, set[str]], report: Report) -> State:
    """Fire joins until none can; they fire the moment they can, so nothing comes between."""
    while True:
        after = _one_join(state, game, reach, report)
        if after is None:
            after = _one_failure(state, game, report)
        if after is None:
            return state
        state = after


def _one_join(state: State, game: Game, reach: dict[str, set[str]], report: Report) -> State | None:
    tokens, notes = state
    for groups, step, waits in sorted(tokens, key=lambda token: (-len(token[0]), token)):
        if not waits:
            continue
        group = groups[-1]
        here = [token for token in tokens if token == (groups, step, True)]
        if ("fired", group, step) in notes:  # late: dropped
            return _closed((tuple(t for t in tokens if t not in here), notes), groups)
        if _fires(state, groups, step, len(here), game, reach):
            return _fired(state, groups, step, game, report)
    return None


def _fires(
    state: State, groups: tuple[int, ...], step: str, arrived: int, game: Game, reach: dict[str, set[str]]
) -> bool:
    tokens, notes = state
    rule, group = game[step], groups[-1]
    if rule.rest == "block" and any(note[0] == "fired" and note[2] == step for note in notes):
        return False
    others = [token for token in tokens if group in token[0] and token != (groups, step, True)]
    if rule.join == "any":
        return True
    if rule.join == "count":
        return arrived >= max(rule.count, 1)
    if rule.join == "all":
        return not others
    held = [t for t in others if not (t[2] and t[0][-1] == group)]  # held at another join of this group: never comes
    return not any(step == t[1] or step in reach[t[1]] for t in held)


def _fired(state: State, groups: tuple[int, ...], step: str, game: Game, report: Report) -> State:
    tokens, notes = state
    rule, group = game[step], groups[-1]
    if rule.join == "all" and ("ended", group) in notes:
        report.left.add(step)
    kept = tuple(token for token in tokens if token != (groups, step, True))
    if rule.rest == "cancel":
        kept = tuple(token for token in kept if group not in token[0])
    joined: Token = (groups[:-1], step, False)
    return _closed(((*kept, joined), notes | {("fired", group, step)}), groups)


def _one_failure(state: State, game: Game, report: Report) -> State | None:
    """A counting join that can no longer fill fails, once every token of its group waits."""
    tokens, notes = state
    for groups, step, waits in sorted(tokens):
        if not waits or game[step].join != "count":
            continue
        group = groups[-1]
        mine = [token for token in tokens if group in token[0]]
        if not all(token[2] and token[0] == groups for token in mine):
            continue
        here = [token for token in mine if token[1] == step]
        if len(here) < max(game[step].count, 1):
            report.unfilled.add(step)
            return _closed((tuple(t for t in tokens if t not in here), notes), groups)
    return None


def _canonical(state: State) -> State:
    """Group numbers in the order of first use, so that equal states are equal; not every symmetry is found."""
    tokens, notes = state
    history: dict[int, list[str]] = {}
    for groups, step, waits in tokens:
        for depth, group in enumerate(groups):
            history.setdefault(group, []).append(f"{depth}{step}{waits}")
    order = sorted(history, key=lambda group: (sorted(history[group]), group))
    names = {group: at + 1 for at, group in enumerate(order)}
    renamed = tuple(sorted((tuple(names[g] for g in groups), step, waits) for groups, step, waits in tokens))
    kept = frozenset(
        (note[0], names[note[1]], *note[2:]) for note in notes if isinstance(note[1], int) and note[1] in names
    )
    return renamed, kept
