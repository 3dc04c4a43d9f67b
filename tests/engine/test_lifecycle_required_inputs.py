"""Inputs that every start has to bring (`executor.spec.required_inputs`)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.lifecycle import input_refusal
from tests.engine_script import net_of, playbook

TEXT = """
workload: {region: null, limit: 5}
executor: {spec: {required_inputs: [region, limit, day]}}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.mark.req("DOC-16")
@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({}, '"region", "day"'),
        ({"region": "eu"}, 'the input "day"'),
        ({"region": None, "day": "2025-01-31"}, 'the input "region"'),
        ({"region": "eu", "day": 0, "limit": None}, 'the input "limit"'),
    ],
)
def test_missing_required_inputs_are_named(payload: dict[str, Any], named: str) -> None:
    refusal = input_refusal(net_of(playbook(TEXT)), payload)

    assert refusal is not None
    assert refusal.kind == "execution.input"
    assert named in refusal.message


@pytest.mark.parametrize("payload", [{"region": "eu", "day": 0}, {"region": "", "day": False, "more": 1}])
def test_a_start_with_all_required_inputs_is_accepted(payload: dict[str, Any]) -> None:
    assert input_refusal(net_of(playbook(TEXT)), payload) is None


def test_a_playbook_without_required_inputs_starts_without_inputs() -> None:
    net = net_of(playbook("workflow: [{step: start, tool: {kind: noop}}]"))

    assert net.required_inputs == ()
    assert input_refusal(net, {}) is None
