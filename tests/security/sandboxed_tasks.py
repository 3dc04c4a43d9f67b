"""Playbooks of one task, run here with the tools that run code."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.language.checking import compiled
from noetl.operations.embedded import RunResult, run_net, tools_here
from tests.engine_script import playbook


def ran(task: str, **allowed: Any) -> RunResult:
    net = compiled(playbook("workflow:\n  - step: start\n    tool: [" + task + "]"))
    tools = tools_here(["shell", "script"], **allowed)
    return asyncio.run(run_net(net, payload={}, db=":memory:", tools=tools))


def python(code: str, spec: str = "{sandbox: strict}", **allowed: Any) -> RunResult:
    lines = code.strip().replace('"', '\\"').replace("\n", "\\n")
    return ran(f'{{name: a, kind: python, code: "{lines}", spec: {spec}}}', **allowed)
