"""All 43 workflow control-flow patterns run with their traces, and are proved sound (beyond.md §1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from noetl.base.diagnostics import Source
from noetl.events.envelope import Event
from noetl.language.checking import check
from noetl.language.proving.certificate import Certificate
from noetl.operations.embedded import RunResult
from noetl.tools.kinds import load_kinds
from tests.contracts.stores import borrowed_url
from tests.patterns.patterns import BROKEN, FOLDER, TRACES, run, run_really, steps_of
from tests.volume import one_in

NAMES = sorted(TRACES)
EXCLUSIVE = {
    "17": ("set_up", "measure", "calibrate"),
    "39": ("withdraw", "deposit"),
    "40": ("oil", "filter", "coolant"),
}


def test_there_are_43_patterns_each_with_a_trace_and_a_broken_variant() -> None:
    assert len(NAMES) == 43
    assert sorted(path.stem for path in FOLDER.glob("wcp_*.yaml")) == NAMES
    assert sorted(path.stem for path in BROKEN.glob("wcp_*.yaml")) == NAMES


@pytest_asyncio.fixture
async def postgres_url() -> AsyncIterator[str]:
    async with borrowed_url() as url:
        yield url


@pytest.mark.parametrize("name", NAMES)
def test_a_pattern_produces_its_expected_trace(name: str, tmp_path: Path) -> None:
    _check(name, *run(name, str(tmp_path / "patterns.db")))


@pytest.mark.parametrize("name", one_in(2, NAMES))
def test_a_pattern_behaves_the_same_on_postgresql(name: str, postgres_url: str) -> None:
    _check(name, *run_really(name, postgres_url))


def _check(name: str, result: RunResult, events: list[Event]) -> None:
    assert steps_of(events) == TRACES[name]["steps"]
    assert result.status.value == TRACES[name].get("status", "completed")
    iterations = sum(event.event_type == "loop.iteration.done" for event in events)
    assert iterations == TRACES[name].get("iterations", 0)


@pytest.mark.parametrize("number", sorted(EXCLUSIVE))
def test_steps_with_the_same_key_never_run_together(number: str, tmp_path: Path) -> None:
    """Four hands could take them all: the key is what keeps them apart."""
    name = next(name for name in NAMES if name.startswith(f"wcp_{number}_"))
    _, events = run(name, str(tmp_path / "patterns.db"), slots=4)
    inside: set[str] = set()
    for event in events:
        if event.step in EXCLUSIVE[number] and event.event_type == "step.scheduled":
            inside.add(event.step_run_id or "")
            assert len(inside) == 1
        elif event.event_type == "token.consumed":
            inside.discard(event.step_run_id or "")


@pytest.mark.parametrize("name", NAMES)
def test_the_analyser_proves_a_pattern_sound(name: str) -> None:
    certificate = _certificate(FOLDER / f"{name}.yaml")
    assert (certificate.verdict, [found.code for found in certificate.findings]) == ("sound", [])


@pytest.mark.parametrize("name", NAMES)
def test_the_analyser_finds_the_fault_of_a_broken_variant_with_a_witness(name: str) -> None:
    certificate = _certificate(BROKEN / f"{name}.yaml")
    assert certificate.verdict == "unsound"
    assert any(witness.moves for witness in certificate.witnesses)


def _certificate(path: Path) -> Certificate:
    checked = check(Source(path.name, path.read_text("utf-8")), kinds=load_kinds())
    assert checked.certificate is not None, checked.diagnostics
    return checked.certificate
