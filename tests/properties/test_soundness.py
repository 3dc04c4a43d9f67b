"""Random nets: structured ones are proved sound, planted faults are found, and a token game played in full agrees.

The game (`tests.language.proving.brute_force`) shares no code with the analysis and tries every interleaving.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from noetl.language.proving.certificate import Certificate, analyse
from tests.language.proving.brute_force import Game, play
from tests.language.proving.nets import from_game, random_game
from tests.language.proving.structured import (
    Fork,
    Structured,
    crossed,
    endless,
    growing,
    overcounted,
    rerouted,
    structured,
)

SOUNDNESS = {"W_DEADLOCK", "W_JOIN_UNFILLED", "W_TOKEN_LEFT", "W_NO_END", "W_TOKEN_GROWTH", "W_UNREACHABLE"}
GAME = {"W_DEADLOCK", "W_JOIN_UNFILLED", "W_TOKEN_LEFT"}

seeds = st.integers(min_value=0, max_value=2**32)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


Plant = Callable[[Structured, Fork], Game]


def proof(game: Game, entry: str = "start") -> Certificate:
    return analyse(from_game(game, entry), {})


def codes(certificate: Certificate) -> set[str]:
    return {finding.code for finding in certificate.findings} & SOUNDNESS


@pytest.mark.req("ADV-06")
@quick
@given(seeds, st.integers(min_value=1, max_value=60))
def test_structured_nets_are_sound(seed: int, size: int) -> None:
    certificate = proof(structured(seed, size).game)

    assert codes(certificate) == set()
    assert certificate.verdict == "sound"


@pytest.mark.req("ADV-06")
@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (rerouted, "W_TOKEN_LEFT"),
        (crossed, "W_DEADLOCK"),
        (overcounted, "W_JOIN_UNFILLED"),
        (growing, "W_TOKEN_GROWTH"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@quick
@given(seed=seeds, size=st.integers(min_value=4, max_value=40), at=st.integers(min_value=0, max_value=9))
def test_a_planted_fault_is_found_with_a_witness(plant: Plant, code: str, seed: int, size: int, at: int) -> None:
    net = structured(seed, size)
    assume(net.forks)
    fork = net.forks[at % len(net.forks)]

    certificate = proof(plant(net, fork))

    assert certificate.verdict == "unsound"
    assert code in codes(certificate)
    assert all(finding.witness for finding in certificate.findings if finding.code == code)


@pytest.mark.req("ADV-06")
@quick
@given(seeds, st.integers(min_value=1, max_value=40))
def test_a_missing_end_is_found(seed: int, size: int) -> None:
    assert "W_NO_END" in codes(proof(endless(structured(seed, size))))


@pytest.mark.req("ADV-06")
@quick
@given(seeds)
def test_the_token_game_agrees_that_structured_nets_are_sound(seed: int) -> None:
    net = structured(seed, 6)

    report = play(net.game, "start", 600)

    assume(report.complete)
    assert report.sound
    assert report.visited == set(net.game)


def agree(game: Game, entry: str, *, withdrawing: bool = False) -> None:
    """The game and the proof find the same faults at the same joins. Where tokens can be `withdrawing`, a cycle without
    a way out is given the benefit of the doubt: another token may come and end it."""
    withdrawing = withdrawing or any(rule.ends_execution for rule in game.values())
    report = play(game, entry, 600)
    assume(report.complete)
    certificate = proof(game, entry)
    assert certificate.verdict != "not decided"
    found = codes(certificate)
    joins = {
        code: {witness.moves[-1].step for witness in certificate.witnesses if witness.code == code} for code in GAME
    }
    assert ("W_DEADLOCK" in found) == report.deadlock
    assert ("W_JOIN_UNFILLED" in found) == bool(report.unfilled)
    assert ("W_TOKEN_LEFT" in found) == bool(report.left)
    if not certificate.statistics.markings:  # the search closes its witnesses with the move that showed the fault
        assert joins["W_JOIN_UNFILLED"] == report.unfilled
        assert joins["W_TOKEN_LEFT"] == report.left
    # A closed cycle is no end, even where the game's tokens die of another fault before they come to it.
    assert "W_NO_END" in found or found & GAME or not report.no_end or withdrawing
    assert not report.sound or not found & {*GAME, "W_NO_END"}


@pytest.mark.req("ADV-06")
@quick
@given(seeds)
@example(1117034)  # two joins would wait for each other, had a third one not ended everything
def test_proof_and_token_game_agree_on_unstructured_nets(seed: int) -> None:
    agree(*random_game(seed))


@pytest.mark.req("ADV-06")
@quick
@given(seeds)
def test_proof_and_token_game_agree_where_tokens_cancel_each_other(seed: int) -> None:
    agree(*random_game(seed, withdrawing=True), withdrawing=True)


@pytest.mark.req("ADV-06")
@quick
@given(seeds, st.sampled_from([rerouted, crossed, overcounted]))
def test_proof_and_token_game_agree_on_planted_faults(seed: int, plant: Plant) -> None:
    net = structured(seed, 5)
    assume(net.forks)

    agree(plant(net, net.forks[0]), "start")
