"""`noetl analyze`: the certificate as text, JSON and DOT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from noetl.cli.nets import analyze_command

FIXTURES = Path(__file__).parents[1] / "fixtures"

CROSSED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: crossed, path: tests/crossed }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - step: a
    next: { arcs: [{ step: left }] }
  - step: b
    next: { arcs: [{ step: right }] }
  - step: left
    spec: { join: all }
  - step: right
    spec: { join: all }
"""


def analyze(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(analyze_command, [*arguments], input=text)


@pytest.mark.req("ADV-06", "CLI-04")
def test_a_sound_playbook_is_reported_with_the_reason_why_its_cycle_ends() -> None:
    result = analyze(str(FIXTURES / "F-004-H.yaml"))

    assert result.exit_code == 0
    assert "F-004-H.yaml: sound" in result.output
    assert "iter.has_more changes in the cycle" in result.output
    assert "warning" not in result.output


@pytest.mark.req("ADV-06", "CLI-04")
def test_an_unsound_playbook_shows_its_witness_and_exits_with_1() -> None:
    result = analyze("-", text=CROSSED)

    assert result.exit_code == 1
    assert "unsound" in result.output
    assert "warning[W_DEADLOCK]" in result.output
    assert "witness: start -> a, b; a -> left; b -> right" in result.output


@pytest.mark.req("ADV-06", "CLI-04")
def test_json_contains_the_firings_of_the_witness() -> None:
    told = json.loads(analyze("-", "-o", "json", text=CROSSED).output)

    assert told["verdict"] == "unsound"
    assert [finding["code"] for finding in told["findings"]] == ["W_DEADLOCK"]
    assert told["witnesses"][0]["moves"][0] == {
        "step": "start",
        "arcs": ["steps/start/arcs/0", "steps/start/arcs/1"],
        "tokens": ["a", "b"],
        "text": "start -> a, b",
    }


@pytest.mark.req("ADV-06", "CLI-04")
def test_dot_colours_the_waiting_join() -> None:
    result = analyze("-", "-o", "dot", text=CROSSED)

    assert '"left" [label="left\\njoin all\\nW_DEADLOCK", color="#c0392b"' in result.output


@pytest.mark.req("CLI-04")
def test_a_playbook_with_errors_is_not_analysed() -> None:
    result = analyze("-", text=CROSSED.replace("step: right }", "step: rihgt }"))

    assert result.exit_code == 3
    assert "E_NEXT_REF" in result.output
