"""Inputs with probably misspelt names: they are accepted with a warning (CLI-02)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.payload import doubts
from tests.cli.running import call
from tests.engine_script import playbook

WORKLOAD = ("region", "n", "order_id", "dry_run")


@pytest.mark.parametrize(
    ("given", "meant"), [("regoin", "region"), ("oder_id", "order_id"), ("dry-run", "dry_run"), ("Region", "region")]
)
def test_a_misspelled_input_gets_a_warning(given: str, meant: str) -> None:
    assert doubts([given], WORKLOAD) == [f'warning: the workload has no "{given}"; did you mean "{meant}"?']


@pytest.mark.parametrize("given", ["region", "m", "customer", "order_date", "x" * 10_000])
def test_known_inputs_and_unlike_names_get_no_warning(given: str) -> None:
    assert doubts([given], WORKLOAD) == []


def test_only_some_of_very_many_unknown_inputs_are_compared() -> None:
    assert len(doubts([f"region{number}" for number in range(100)], WORKLOAD)) == 50


def test_a_run_with_an_unknown_input_warns_and_continues(tmp_path: Path) -> None:
    file = tmp_path / "play.yaml"
    text = "workload: {region: eu}\nworkflow: [{step: start, tool: {kind: noop, args: {r: '{{ workload.region }}'}}}]"
    file.write_text(playbook(text))

    code, stdout, stderr = call("run", str(file), "--memory", "-q", "--set", "regoin=us")

    assert (code, stdout) == (0, '{\n  "r": "eu"\n}\n')
    assert stderr == 'warning: the workload has no "regoin"; did you mean "region"?\n'
