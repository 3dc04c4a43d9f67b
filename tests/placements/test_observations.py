"""What counts as a difference between two places, and what does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl.events.envelope import Event
from tests.placements.observations import Told, differences
from tests.playbook_runs import run_here

CHAIN = """
workflow:
  - step: start
    tool: [{name: a, kind: python, code: x}, {name: b, kind: python, code: x}]
    next: {arcs: [{step: end}]}
  - {step: end, tool: {name: c, kind: python, code: x}}
"""
FORKED = """
workflow:
  - {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}}
  - {step: left, tool: {name: a, kind: python, code: x}}
  - {step: right, tool: {name: b, kind: python, code: x}}
"""


def told(text: str) -> Told:
    ran = run_here(text)
    return Told(status=ran.result.status.value, events=ran.events)


def with_events(one: Told, events: Sequence[Event]) -> Told:
    return msgspec.structs.replace(one, events=list(events))


@pytest.mark.parametrize("text", [CHAIN, FORKED])
def test_two_equal_runs_have_no_differences(text: str) -> None:
    assert differences(told(text), told(text)) == {}


@pytest.mark.parametrize("text", [CHAIN, FORKED])
def test_a_missing_or_repeated_event_is_a_difference(text: str) -> None:
    one = told(text)
    for at in range(len(one.events)):
        fewer, more = [*one.events[:at], *one.events[at + 1 :]], [*one.events[: at + 1], *one.events[at:]]
        assert [*differences(with_events(one, fewer), one)] == ["events"], at
        assert [*differences(with_events(one, more), one)] == ["events"], at


def test_the_full_order_is_compared_without_concurrency() -> None:
    one = told(CHAIN)
    for at in range(len(one.events) - 1):
        first, second = one.events[at : at + 2]
        swapped = [*one.events[:at], second, first, *one.events[at + 2 :]]
        is_same = (first.step, first.event_type) == (second.step, second.event_type)
        assert differences(with_events(one, swapped), one) != {} or is_same, at


def test_the_order_of_concurrent_events_is_ignored_and_the_order_within_each_branch_compared() -> None:
    one = told(FORKED)
    runs = [*dict.fromkeys(event.step_run_id for event in one.events)]
    random.Random(1).shuffle(runs)
    by_run = [event for run in runs for event in one.events if event.step_run_id == run]
    assert differences(with_events(one, by_run), one) == {}
    assert differences(with_events(one, by_run[::-1]), one) != {}


def test_the_start_of_an_interrupted_task_is_ignored_and_that_of_others_compared() -> None:
    one = told(CHAIN)
    [*_, last] = [event for event in one.events if event.event_type == "task.processed"]
    stopped = [event for event in one.events if event is not last]
    begun = {at for at, event in enumerate(stopped) if event.event_type == "task.started"}
    for at in begun:
        fewer = with_events(one, [*stopped[:at], *stopped[at + 1 :]])
        is_same = stopped[at].task_run_id == last.task_run_id
        assert (differences(fewer, with_events(one, stopped)) == {}) is is_same, at


@pytest.mark.parametrize(
    "change", [{"status": "failed"}, {"result": 1}, {"ctx": {"a": 1}}, {"calls": ["GET /"]}, {"refused": ["no"]}]
)
def test_every_observation_of_a_run_is_compared(change: dict[str, Any]) -> None:
    one = told(CHAIN)
    assert [*differences(msgspec.structs.replace(one, **change), one)] == [*change]


def test_a_shorter_list_is_shown_from_its_end_on() -> None:
    short, whole = Told(calls=["GET /a 1"]), Told(calls=["GET /a 1", "GET /a 2", "GET /b 1", "GET /b 2"])

    assert differences(short, whole)["calls"] == (short.calls, whole.calls)
    assert differences(whole, short)["calls"] == (whole.calls, short.calls)
