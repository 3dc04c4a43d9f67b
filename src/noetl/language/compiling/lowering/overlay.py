"""The overlay of `spec`: what a task's effective spec is made of (SPEC-02…04, C-23, C-30).

`kind defaults ← policy defaults ← executor ← step ← loop ← task`, inner over outer; maps merge deep, anything else
is replaced. `policy` never takes part, nor do options that belong to the outer construct itself.
"""

from __future__ import annotations

from typing import Any

from noetl.language.compiling.lowering.values import inner, table
from noetl.language.grammar.root import EXECUTOR_SPEC
from noetl.language.grammar.steps import LOOP_SPEC, STEP_SPEC
from noetl.language.reading.nodes import Mapping, data
from noetl.language.reading.playbook import Dialect, ExecutorSyntax, LoopSyntax, StepSyntax, TaskSyntax
from noetl.net.kinds import ToolKind

EXECUTOR_OPTIONS = frozenset(EXECUTOR_SPEC.names())
LOOP_OPTIONS = frozenset(key.name for key in LOOP_SPEC.keys)  # of any dialect: none of them is ever a task's


def overlay(outer: dict[str, Any], within: dict[str, Any]) -> dict[str, Any]:
    """`within` over `outer` (SPEC-02)."""
    merged = dict(outer)
    for key, value in within.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def step_options(dialect: Dialect) -> frozenset[str]:
    """What a step's spec says about the step itself."""
    return frozenset(STEP_SPEC.names(dialect)) | {"policy"}


class Layers:
    """The layers outside a task, of one step or of none."""

    def __init__(self, executor: ExecutorSyntax | None, step: StepSyntax | None, dialect: Dialect) -> None:
        spec = executor.spec if executor else None
        self._defaults = table(inner(spec, "policy", "defaults"))
        self._outer = _remaining_options(spec, EXECUTOR_OPTIONS)
        self._outer = overlay(self._outer, _remaining_options(step.spec if step else None, step_options(dialect)))
        loop = step.loop if step else None
        while loop is not None:
            self._outer = overlay(self._outer, _remaining_options(loop.spec, LOOP_OPTIONS))
            loop = loop.inner

    def effective(self, task: TaskSyntax, kind: ToolKind | None) -> dict[str, Any]:
        """The spec a task runs under."""
        spec = overlay(dict(kind.defaults) if kind else {}, self._policy_defaults(task.kind))
        spec = overlay(spec, self._outer)
        # Options written beside `kind` count less than the same ones under the task's own `spec`.
        spec = overlay(spec, {key: data(node) for key, node in task.knobs.items()})
        return overlay(spec, _remaining_options(task.spec, frozenset({"policy"})))

    def _policy_defaults(self, kind: str) -> dict[str, Any]:
        """`defaults.timeouts` and `defaults.resources`, by tool kind or for all (SPEC-04)."""
        found = {}
        for section, knob in (("timeouts", "timeout"), ("resources", "resources")):
            by_kind = self._defaults.get(section)
            if isinstance(by_kind, dict):
                value = by_kind.get(kind, by_kind.get("default"))
                if value is not None:
                    found[knob] = value
        return found


def loops_of(loop: LoopSyntax | None) -> list[LoopSyntax]:
    """The levels of a loop, outermost first."""
    levels = []
    while loop is not None:
        levels.append(loop)
        loop = loop.inner
    return levels


def _remaining_options(spec: Mapping | None, options: frozenset[str]) -> dict[str, Any]:
    return {key: data(value) for key, value in spec.values.items() if key not in options} if spec else {}
