"""The context of lowering: the debug map (SUGAR-06), readings of checked nodes, and the overlay of a task's `spec`.

The readers have noted every wrong shape; here a wrong one simply counts as absent, so that a playbook with errors
still becomes as much of a net as it can.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.language.compiling.passes import head, key_place
from noetl.language.grammar.root import EXECUTOR_SPEC
from noetl.language.grammar.steps import LOOP_SPEC, STEP_SPEC
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data, inner
from noetl.language.reading.playbook import Dialect, ExecutorSyntax, LoopSyntax, Playbook, StepSyntax, TaskSyntax
from noetl.net.debug import DebugMap, Origin
from noetl.net.kinds import Kinds, ToolKind
from noetl.net.net import Concurrency, Rate
from noetl.net.task import Directive
from noetl.templates.values import Authored, deep_merged


class Lowering(msgspec.Struct, frozen=True):
    """The context that every part of lowering receives."""

    playbook: Playbook
    kinds: Kinds
    # Filled during lowering. It is not part of the net, so the layout of the text never changes the hash.
    debug: DebugMap
    # The executor's defaults for policies and routers, written into each of them: a net has no defaults to look up.
    on_unmatched: Directive = Directive.CONTINUE
    unguarded_always: bool = False

    def trace(self, address: str, part: PositionedDiagnostic, construct: str = "") -> None:
        """Remember where the element at `address` was written; the first to claim an address keeps it."""
        place = head(part)
        self.debug.setdefault(address, Origin(place.path, place.span, construct))

    def trace_task(self, address: str, task: TaskSyntax) -> None:
        if task.generated:
            self.trace(address, key_place(task.node, task.generated, task), task.generated)
        else:
            kind = task.kind_node if _stands_within(task.kind_node, task) else None
            place = task.name_node or kind or head(task)
            self.debug.setdefault(address, Origin(task.path, place.span, _construct(task)))


def _stands_within(node: Scalar | None, task: TaskSyntax) -> bool:
    """The kind of a workbook reference is written elsewhere, in the definition."""
    return node is not None and node.path.startswith(task.path)


def _construct(task: TaskSyntax) -> str:
    if task.kind_node is not None and not _stands_within(task.kind_node, task):
        return "workbook"
    return "eval" if task.policy is not None and task.policy.strict else ""


EXECUTOR_OPTIONS = frozenset(EXECUTOR_SPEC.names())
# Loop options of all dialects. None of them is ever a task option.
LOOP_OPTIONS = frozenset(key.name for key in LOOP_SPEC.keys)


def authored(node: Node | None) -> Authored | None:
    """The authored value, to be rendered later; absence and null are None."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    return Authored(data(node))


def written(node: Node | None, otherwise: Any = None) -> Authored:
    """Like `authored`, for places that need a value."""
    return authored(node) or Authored(otherwise)


def word(node: Node | None, otherwise: str) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else otherwise


def flag(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


def number(node: Node | None) -> int | None:
    whole = isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)
    return node.value if whole and isinstance(node, Scalar) and isinstance(node.value, int) else None


def table(node: Node | None) -> dict[str, Any]:
    """A mapping as plain data, empty when there is none."""
    found: dict[str, Any] = data(node) if isinstance(node, Mapping) else {}
    return found


def words(node: Node | None) -> tuple[str, ...]:
    """One word or a list of words."""
    items = node.items if isinstance(node, Sequence) else (node,)
    return tuple(item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str))


# Concurrency and rate limits, lowered (beyond.md §1, design.md §8).


def lower_concurrency(node: Node | None) -> Concurrency | None:
    """`{limit, key, on_limit}`, or the limit alone."""
    limit = authored(node.get("limit") if isinstance(node, Mapping) else node)
    if limit is None:
        return None
    return Concurrency(limit=limit, key=authored(inner(node, "key")), on_limit=word(inner(node, "on_limit"), "queue"))


def lower_rate(node: Node | None) -> Rate | None:
    limit, per = authored(inner(node, "limit")), authored(inner(node, "per"))
    if limit is None or per is None:
        return None
    return Rate(limit=limit, per=per, key=authored(inner(node, "key")))


# The overlay of `spec`: the layers of a task's effective spec (SPEC-02…04, C-23, C-30).
#
# `kind defaults ← policy defaults ← executor ← step ← loop ← task`, inner over outer; maps merge deep, anything else is
# replaced. `policy` never takes part, nor do options that belong to the outer construct itself.


def step_options(dialect: Dialect) -> frozenset[str]:
    """The options in a step's spec for the step itself."""
    return frozenset(STEP_SPEC.names(dialect)) | {"policy"}


class Layers:
    """The layers outside a task, of one step or of none."""

    def __init__(self, executor: ExecutorSyntax | None, step: StepSyntax | None, dialect: Dialect) -> None:
        spec = executor.spec if executor else None
        self._defaults = table(inner(spec, "policy", "defaults"))
        self._outer = _remaining_options(spec, EXECUTOR_OPTIONS)
        self._outer = deep_merged(self._outer, _remaining_options(step.spec if step else None, step_options(dialect)))
        for loop in loops_of(step.loop if step else None):
            self._outer = deep_merged(self._outer, _remaining_options(loop.spec, LOOP_OPTIONS))

    def effective(self, task: TaskSyntax, kind: ToolKind | None) -> dict[str, Any]:
        """The spec a task runs under."""
        spec = deep_merged(dict(kind.defaults) if kind else {}, self._policy_defaults(task.kind))
        spec = deep_merged(spec, self._outer)
        # Options written beside `kind` count less than the same ones under the task's own `spec`.
        spec = deep_merged(spec, {key: data(node) for key, node in task.knobs.items()})
        return deep_merged(spec, _remaining_options(task.spec, frozenset({"policy"})))

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
