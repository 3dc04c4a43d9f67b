"""Fixes that an editor can make of the hints of `noetl check`."""

from __future__ import annotations

import pytest

from tests.engine_script import playbook
from tests.server.talking import talking

WAITS = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: ready, kind: noop}]
    message: {name: go, correlation: {n: 1}}
    next: {arcs: [{step: end}]}
  - step: end
"""


@pytest.mark.req("VAL-19")
async def test_a_hint_with_one_replacement_is_an_editor_fix() -> None:
    text = WAITS.replace("kind: python", "kind: pyton").replace("{step: ask}", "{step: aks}")
    async with talking() as talk:
        found = (await talk.post("/api/validate", {"source": playbook(text)}))["diagnostics"]
        lines = playbook(text).split("\n")
        for one in found:
            if (fix := one["fix"]) is not None:
                line = lines[fix["line"] - 1]
                lines[fix["line"] - 1] = line[: fix["column"] - 1] + fix["replacement"] + line[fix["end_column"] - 1 :]
        assert "\n".join(lines) == playbook(WAITS)
