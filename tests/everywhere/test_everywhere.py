"""One behaviour in every size: whatever runs embedded runs the same on PostgreSQL, on a server with a worker inside,
and on servers with workers that are processes of their own, over HTTP and rung by NATS (DESIGN §2, WRK-08).

Compared are how a run ended, its result and its variables, what it asked of endpoints and left in tables, and the names
of its events in order. `make test` runs a choice of them everywhere; all of them run in `make test-deep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.everywhere import dialect_cases, fixture_cases, pattern_cases, wild_cases
from tests.everywhere.cases import Case
from tests.everywhere.desk import gathered
from tests.everywhere.places import PLACES, SERVERS, Embedded, Place, served
from tests.everywhere.told import Told, differences

AT_ONCE = 8
FAMILIES = {
    "fixtures": fixture_cases.CASES,
    "dialects": dialect_cases.CASES,
    "wild": wild_cases.CASES,
    "patterns": pattern_cases.CASES,
}
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
            folder.mkdir()
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
    with ExitStack() as stack:
        yield Everywhere(tmp_path_factory.mktemp("everywhere"), stack)


def compared(everywhere: Everywhere, place: str, cases: Sequence[Case]) -> None:
    expected = everywhere.expected(cases)
    told = ran(everywhere.place(place), cases)
    differing = {case.name: differences(*pair) for case, *pair in zip(cases, told, expected, strict=True)}
    assert {name: found for name, found in differing.items() if found} == {}


@pytest.mark.req("WRK-01", "WRK-06", "WRK-08")
@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("place", PLACES)
def test_everything_runs_the_same_everywhere(everywhere: Everywhere, place: str, family: str) -> None:
    compared(everywhere, place, FAMILIES[family])
