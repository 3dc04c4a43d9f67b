"""Pipelines of scripted tasks, written and run."""

from __future__ import annotations

import json
from typing import Any

from tests.playbook_runs import Ran, Scripted, run_here


def task(name: str, *rules: dict[str, Any], kind: str = "python", **more: Any) -> dict[str, Any]:
    policy = {"spec": {"policy": {"rules": list(rules)}}} if rules else {}
    code = {"code": "scripted"} if kind == "python" else {}
    return {"name": name, "kind": kind, **code, **more, **policy}


def always(do: str, **then: Any) -> dict[str, Any]:
    return {"else": {"then": {"do": do, **then}}}


def pipeline(
    *tasks: dict[str, Any], limits: dict[str, int] | None = None, tool: Scripted | None = None, **answers: Any
) -> Ran:
    workflow = [
        {"step": "start", "tool": list(tasks), "next": {"arcs": [{"step": "after"}]}},
        {"step": "after", "tool": {"kind": "noop", "args": {"got": "{{ start.data }}"}}},
    ]
    executor = {"spec": {"policy": {"limits": limits or {}}}}
    return run_here(f"executor: {json.dumps(executor)}\nworkflow: {json.dumps(workflow)}\n", tool=tool, **answers)
