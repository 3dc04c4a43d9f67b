"""A v10 playbook as v10-io writes it: the words that differ, changed back, so that every playbook has that form too."""

from __future__ import annotations

import re
from typing import Any

_SUGAR = ("choose", "while", "until")


def in_v10_io(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_step(step) for step in steps]


def _step(step: dict[str, Any]) -> dict[str, Any]:
    out = {key: _templates(value) for key, value in _renamed(step).items()}
    if "tool" in step:
        out["tool"] = _tasks(step["tool"])
    if isinstance(step.get("next"), dict):
        out["next"] = {**_templates(step["next"]), "arcs": [_renamed(_templates(arc)) for arc in step["next"]["arcs"]]}
    return out


def _tasks(tool: Any) -> Any:
    return [_task(item) for item in tool] if isinstance(tool, list) else _task(tool)


def _task(task: dict[str, Any]) -> dict[str, Any]:
    if not any(word in task for word in _SUGAR) or "kind" in task:
        out = {key: value if key == "code" else _templates(value) for key, value in _renamed(task).items()}
        policy = task.get("spec", {}).get("policy")
        if policy is not None:
            rules = [_rule(rule) for rule in policy["rules"]]
            out["spec"] = {**out["spec"], "policy": {**_templates(policy), "rules": rules}}
        return out
    return {key: _construct(value) if key in _SUGAR else value for key, value in task.items()}


def _construct(node: Any) -> Any:
    if isinstance(node, list):
        return [_construct(branch) for branch in node]
    return {
        key: _tasks(value) if key == "then" else _construct(value) if key == "else" else _templates(value)
        for key, value in node.items()
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    held = rule.get("else")
    if isinstance(held, dict) and "then" in held:
        return {"else": {"then": _renamed(_outcomes(held["then"]))}}
    if isinstance(held, dict):
        return {"else": _renamed(_outcomes(held))}
    return {"when": _outcomes(rule["when"]), "then": _renamed(_outcomes(rule["then"]))}


def _renamed(node: dict[str, Any]) -> dict[str, Any]:
    """`args` as `input`; assignments in one `set`. A loop's own names keep their place in the iteration."""
    out = {"input" if key == "args" else key: value for key, value in node.items() if not key.startswith("set_")}
    written = {f"ctx.{name}": value for name, value in (node.get("set_ctx") or {}).items()}
    written |= {f"iter.{name}": value for name, value in (node.get("set_iter") or {}).items()}
    if "backoff" in out and out["backoff"] == "none":
        out["backoff"] = "fixed"
    return {**out, "set": written} if written else out


def _templates(node: Any) -> Any:
    return _changed(node, ((r"(?<![\w.])args(?=[.\[])", "input"), (r"(?<![\w.])event\.result\b", "output.data")))


def _outcomes(node: Any) -> Any:
    return _changed(_changed(node, ((r"(?<![\w.])outcome\b", "output"),)), ((r"(?<![\w.])args(?=[.\[])", "input"),))


def _changed(node: Any, changes: tuple[tuple[str, str], ...]) -> Any:
    if isinstance(node, dict):
        return {_changed(key, changes): _changed(value, changes) for key, value in node.items()}
    if isinstance(node, list):
        return [_changed(item, changes) for item in node]
    if isinstance(node, str) and "{{" in node:
        for pattern, word in changes:
            node = re.sub(pattern, word, node)
    return node
