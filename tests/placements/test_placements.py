"""One behaviour in every size: whatever runs embedded runs the same on PostgreSQL, on a server with a worker inside,
and on servers with workers that are processes of their own, over HTTP and rung by NATS (design.md §2, WRK-08).

Compared are how a run ended, its result and its variables, what it asked of endpoints and left in tables, and the names
of its events in order. `make test` runs a choice of them, each in every other place and its neighbours in the others;
all of them run everywhere in `make test-deep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.placements import dialect_cases, fixture_cases, pattern_cases, wild_cases
from tests.placements.cases import Case
from tests.placements.observations import Told, differences
from tests.placements.places import PLACES, SERVERS, Embedded, Place, served
from tests.placements.task_desk import gathered
from tests.servers import postgres
from tests.volume import one_in

AT_ONCE = 8
FAMILIES = {
    "fixtures": fixture_cases.CASES,
    "dialects": dialect_cases.CASES,
    "wild": wild_cases.CASES,
    "patterns": pattern_cases.CASES,
}
CHOSEN = (
    *("F-000-C", "F-000-E", "F-001-B", "F-001-C broken", "F-002-B", "F-002-C", "F-002-F", "F-002-K", "F-002-N"),
    *("F-002-L answered", "F-002-M", "F-002-O", "F-004-A unresolved", "F-004-C", "F-004-H", "F-004-H busy"),
    *("F-R-JOIN", "F-R-LOOP", "F-R-SAGA", "F-R-QUANTUM", "F-R-GATEWAY answered", "F-R-SUGAR"),
    *("F-R-TIMER", "F-R-TIMER cancelled", "F-R-HUMAN"),
    *("fork, v2-case", "retry-exponential, v2-eval", "failure-routed, v10", "loop-parallel, v10"),
    *("v10_flight_search", "v10_nested_playbooks", "v10_result_output_select", "v10_typos_refused"),
    *("v10_children", "v10_lists_in_sql", "v2_case_repair", "v2_eval_shared_pages"),
    *("v2_case_oauth_then_call", "wcp_16_deferred_choice", "wcp_20_cancel_case", "wcp_22_recursion"),
    *("wcp_23_transient_trigger", "wcp_24_persistent_trigger", "wcp_27_complete_instances"),
)
EVERYTHING = [case for cases in FAMILIES.values() for case in cases]


class Everywhere:
    """The places, each opened when it is first asked for, and what every case does where it is compared with."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._places: dict[str, Place] = {}
        self._expected: dict[str, Told] = {}

    def place(self, name: str) -> Place:
        if name not in self._places:
            folder = self._folder / name.replace(" ", "-")
            folder.mkdir(exist_ok=True)
            if name in SERVERS:
                self._places[name] = self._stack.enter_context(served(name, folder))
            else:
                self._places[name] = Embedded(None if "PostgreSQL" in name else folder)
        return self._places[name]

    def expected(self, cases: Sequence[Case]) -> list[Told]:
        new = [case for case in cases if case.name not in self._expected]
        here = self.place("embedded, SQLite")
        for case, told in zip(new, ran(here, new), strict=True):
            self._expected[case.name] = told
        return [self._expected[case.name] for case in cases]


def ran(place: Place, cases: Sequence[Case]) -> list[Told]:
    return asyncio.run(gathered([partial(place.ran, case) for case in cases], AT_ONCE))


@pytest.fixture(scope="session")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    postgres.server()  # it takes a while to start, and would stop the loop of whoever asks first
    with ExitStack() as stack:
        yield Everywhere(tmp_path_factory.mktemp("everywhere"), stack)


def compared(everywhere: Everywhere, place: str, cases: Sequence[Case]) -> None:
    expected = everywhere.expected(cases)
    told = ran(everywhere.place(place), cases)
    lines = [
        f"{case.name}: {what}\n  here:     {here}\n  embedded: {there}"
        for case, *pair in zip(cases, told, expected, strict=True)
        for what, (here, there) in differences(*pair).items()
    ]
    if lines:
        pytest.fail(f"{place} differs\n" + "\n".join(lines), pytrace=False)


def test_every_fixture_is_run() -> None:
    assert {case.name.split()[0] for case in fixture_cases.CASES} == set(fixture_cases.ALL_FIXTURES)
    assert set(CHOSEN) <= {case.name for case in EVERYTHING}


@pytest.mark.req("WRK-01", "WRK-06", "WRK-08")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", PLACES)
def test_a_sample_of_fixtures_runs_the_same_in_every_placement(everywhere: Everywhere, place: str) -> None:
    chosen = [case for case in EVERYTHING if case.name in CHOSEN]
    compared(everywhere, place, one_in(2, chosen, first=PLACES.index(place)))


@pytest.mark.req("WRK-01", "WRK-06", "WRK-08")
@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("place", PLACES)
def test_every_fixture_runs_the_same_in_every_placement(everywhere: Everywhere, place: str, family: str) -> None:
    compared(everywhere, place, FAMILIES[family])
