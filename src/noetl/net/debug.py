"""The debug map: from every compiled element back to the text its author wrote (SUGAR-06).

Addresses are readable text, made only by the functions here, so that no two packages write one differently.
"""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import Span


class Origin(msgspec.Struct, frozen=True):
    """Where an element comes from. `construct` names what the compiler lowered (`while`, `eval`, `case`, `sink`)."""

    path: str
    span: Span
    construct: str = ""


DebugMap = dict[str, Origin]


def step_address(step: str) -> str:
    return f"steps/{step}"


def pipeline_address(step: str, part: str = "") -> str:
    """A list of tasks: the step's own (`part` empty), or that of its compensation, a handler, a sink."""
    return f"steps/{step}/{part}/tasks" if part else f"steps/{step}/tasks"


def task_address(step: str, task: str, part: str = "") -> str:
    return f"{pipeline_address(step, part)}/{task}"


def rule_address(step: str, task: str, index: int) -> str:
    return f"steps/{step}/tasks/{task}/rules/{index}"


def arc_address(step: str, index: int) -> str:
    return f"steps/{step}/arcs/{index}"


def case_address(step: str, index: int) -> str:
    return f"steps/{step}/case/{index}"


def transition_address(step: str, rule: int, action: int) -> str:
    """A v2-case transition: an action of a case rule."""
    return f"steps/{step}/case/{rule}/actions/{action}"


def part_address(step: str, part: str) -> str:
    """Another part of a step: next, loop, join, admission, timer, message, signal, human_task, timeout, sink, args …"""
    return f"steps/{step}/{part}"
