"""What a keychain entry leaves to the workload, from the request to the tool call (design.md §5, KEY-02)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.events.envelope import Event
from noetl.operations.embedded import driving
from noetl.tools.registry import Registry
from tests.engine_script import playbook
from tests.playbook_runs import Scripted
from tests.secrets.vaults import new_keychain

TEXT = """
workload: {which: FIRST_KEY, deep: {name: one}, literal: "{{ workload.which }}"}
keychain:
  - {name: api, kind: env, var: "{{ workload.which }}"}
  - {name: parts, kind: static, value: {a: "{{ deep.name }}-secret", b: ["{{ workload.literal }}"]}}
workflow:
  - step: start
    tool:
      name: call
      kind: python
      code: x
      args: {key: "{{ keychain.api.value }}", a: "{{ keychain.parts.a }}", b: "{{ keychain.parts.b }}"}
"""
VARIABLES = {"FIRST_KEY": "first-secret", "SECOND_KEY": "second-secret"}


async def ran(text: str, payload: dict[str, Any]) -> tuple[Any, Scripted, list[Event]]:
    tool, events = Scripted(call=1), list[Event]()
    tools, keychain = Registry({"python": tool}), new_keychain(environment=VARIABLES)
    async with asyncio.timeout(60), driving(":memory:", tools=tools, watch=events.extend, keychain=keychain) as driver:
        return await driver.run(playbook(text), payload), tool, events


@pytest.mark.req("KEY-02", "KEY-03")
@pytest.mark.parametrize(("payload", "key"), [({}, "first-secret"), ({"which": "SECOND_KEY"}, "second-secret")])
async def test_an_entry_is_rendered_with_the_workload_of_its_run(payload: dict[str, Any], key: str) -> None:
    result, tool, _ = await ran(TEXT, payload)

    assert result.ok, result.error
    args = tool.inputs_of("call")[0]["args"]
    assert args == {"key": key, "a": "one-secret", "b": ["{{ workload.which }}"]}, "data is never a template"


@pytest.mark.req("KEY-02")
@pytest.mark.parametrize(
    ("var", "why"),
    [
        ("{{ workload.nothing }}", "entry"),
        ("{{ workload.which.x.y.z + 1 }}", 'keychain entry "api"'),
    ],
)
async def test_an_unresolvable_entry_ends_the_run_before_its_first_step(var: str, why: str) -> None:
    result, _, events = await ran(TEXT.replace("{{ workload.which }}", var, 2).replace(f'literal: "{var}"', "x: 1"), {})

    assert result.error.kind == "keychain.unresolved"
    assert why in result.error.message
    assert "workflow.started" not in [event.event_type for event in events]
