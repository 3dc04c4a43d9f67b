"""Joins as the engine runs them, against the token game that the proofs are compared with (ROUTE-11, O-01).

The game (`tests.language.proving.brute_force`) was written from the rules alone and shares no code with either.
Every move of
the engine, whatever the order in which workers report, must be a move of the game.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.engine.execution import Execution
from noetl.engine.held_tokens import around
from noetl.events.envelope import Event
from noetl.net.net import Net
from noetl.net.task import Task
from tests.engine_script import Conversation
from tests.language.proving.brute_force import Game, Report, State, _moves, _reach, _settle, play
from tests.language.proving.nets import from_game, random_game
from tests.language.proving.structured import structured

Tree = tuple[Any, ...]
CROWD = 12
MOVES = 40


def with_work(net: Net) -> Net:
    """The same net with a task in every step, so that no step run ends before somebody reports it."""
    task = Task(name="t", kind="python")
    return msgspec.structs.replace(
        net, transitions=tuple(msgspec.structs.replace(step, tasks=(task,)) for step in net.transitions)
    )


def tree_of(tokens: list[tuple[tuple[Any, ...], str, bool]], fired: set[tuple[Any, str]]) -> Tree:
    """A marking as nested groups, equal whenever it is the same up to names and order."""

    def level(prefix: tuple[Any, ...]) -> Tree:
        depth = len(prefix)
        items: list[Any] = [(0, step, waits) for groups, step, waits in tokens if groups == prefix]
        inner = {groups[: depth + 1] for groups, _, _ in tokens if groups[:depth] == prefix and len(groups) > depth}
        items += [(1, *level(one)) for one in inner]
        joined = tuple(sorted(step for group, step in fired if prefix and group == prefix[-1]))
        return (joined, tuple(sorted(items, key=repr)))

    return level(())


def tree_of_game(state: State) -> Tree:
    tokens, notes = state
    return tree_of(list(tokens), {(note[1], str(note[2])) for note in notes if note[0] == "fired"})


def tree_of_engine(execution: Execution) -> Tree:
    tokens = []
    for token in execution.tokens.values():
        groups = tuple(fork.fork_id for fork in around(execution.held.forks, token.fork))[::-1]
        tokens.append((groups, token.step, token.held == "join"))
    fired = {(fork.fork_id, step) for fork in execution.held.forks.values() for step in fork.joined}
    return tree_of(tokens, fired)


def check_counts(execution: Execution) -> None:
    """What is counted as tokens move is what a look at every token gives."""
    for fork in execution.held.forks.values():
        inside = [
            token
            for token in execution.tokens.values()
            if fork.fork_id in {one.fork_id for one in around(execution.held.forks, token.fork)}
        ]
        assert inside, "a group without tokens is gone"
        waiting = [token for token in inside if token.held == "join" and token.fork == fork.fork_id]
        noted = [token_id for ids in fork.waiting.values() for token_id in ids]
        assert sorted(noted) == sorted(token.token_id for token in waiting)
        out: dict[str, int] = {}
        for token in inside:
            if token not in waiting:
                out[token.step] = out.get(token.step, 0) + 1
        assert fork.out == out
    assert execution.held.blocked.keys() == {
        step for fork in execution.held.forks.values() for step, blocks in fork.joined.items() if blocks
    }


def _is_tie(events: list[Event], game: Game) -> bool:
    """Whether the order is free and the game knows only one: a firing filled several joins of which one withdraws the
    rest, or a join that blocked was released and one of the groups that waited for it went first."""
    arrived = {event.step for event in events if event.event_type == "token.held"}
    filled = {event.step for event in events if event.event_type == "join.filled"}
    released = any(game[step].rest == "block" for step in filled - arrived if step is not None)
    return released or (len(arrived) > 1 and any(game[step].rest == "cancel" for step in arrived if step is not None))


def lockstep(game: Game, entry: str, seed: int) -> None:
    dice = random.Random(seed)
    talk = Conversation(with_work(from_game(game, entry)))
    reach = _reach(game)
    flags = {f"{name}_{at}": dice.random() < 0.6 for name, rule in game.items() for at in range(len(rule.arcs))}
    talk.start(**flags)
    states = [_settle(((((), entry, False),), frozenset()), game, reach, Report())]
    for _ in range(MOVES):
        running = sorted(name for name, run_id in talk.names.items() if run_id in talk.execution.runs)
        if not running or len(talk.execution.tokens) > CROWD:
            break
        events = talk.done(dice.choice(running))
        if any(event.event_type == "join.unfilled" for event in events):
            report = play(game, entry, 3000)
            assert report.deadlock or report.unfilled or not report.complete
            return
        check_counts(talk.execution)
        if _is_tie(events, game):
            return
        mine = tree_of_engine(talk.execution)
        after = [_settle(one, game, reach, Report()) for state in states for one in _moves(state, game, Report())]
        states = list({tree_of_game(one): one for one in after if tree_of_game(one) == mine}.values())
        assert states, f"the engine came to {mine}, which the game cannot"


@pytest.mark.req("ROUTE-11", "O-01")
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 100_000), withdrawing=st.booleans())
def test_every_move_of_the_engine_is_a_move_of_the_token_game(seed: int, withdrawing: bool) -> None:
    game, entry = random_game(seed, withdrawing=withdrawing)
    lockstep({name: replace(rule, may_deny=False) for name, rule in game.items()}, entry, seed)


@pytest.mark.req("ROUTE-11", "ADV-06")
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 100_000), size=st.integers(2, 14))
def test_a_net_proved_sound_ends_in_any_order(seed: int, size: int) -> None:
    net = structured(seed, size)
    dice = random.Random(seed)
    talk = Conversation(with_work(from_game(net.game, "start")))
    talk.start(
        **{f"{name}_{at}": dice.random() < 0.5 for name, rule in net.game.items() for at in range(len(rule.arcs))}
    )
    for _ in range(120):
        running = sorted(name for name, run_id in talk.names.items() if run_id in talk.execution.runs)
        if not running:
            break
        talk.done(dice.choice(running))

    assert "join.unfilled" not in talk.types()
    if not talk.execution.runs:  # a cycle whose guard stays true is cut off above
        assert talk.status == "completed"
        assert talk.execution.held.forks == {}
