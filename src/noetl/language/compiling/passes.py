"""The form of a pass, its context (`Compilation`), and the pipelines of a playbook.

A pass takes the playbook and returns it, rewritten or unchanged; mistakes go to `findings`. No pass stops at a mistake:
the next one sees as much of the playbook as can be understood (VAL-19).

A pipeline is a place of a playbook that has tasks; all are walked and rewritten by the same functions. A step's own
`tool` list is the pipeline called "tasks"; others are compensations, event handlers, the lists of case rules, sinks,
workbook definitions, and the hooks inside a task's policy. This module does not know the meaning of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.base.diagnostics import DiagnosticPosition, Findings, PositionedDiagnostic, Span
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import (
    CaseRuleSyntax,
    Playbook,
    RetrySyntax,
    StepSyntax,
    Sugar,
    TaskSyntax,
    WaitBlocksSyntax,
)
from noetl.net.kinds import Kinds


class Compilation(msgspec.Struct, frozen=True):
    """The table of tool kinds, where findings go, and whether unknown kinds may be left to plug-ins (VAL-04)."""

    kinds: Kinds
    findings: Findings
    extensions: bool = False

    def note(self, code: str, place: PositionedDiagnostic, message: str, hint: str = "") -> None:
        self.findings.add(code, place, message, hint)


Pass = Callable[[Playbook, Compilation], Playbook]


def key_place(node: object, key: str, otherwise: PositionedDiagnostic) -> PositionedDiagnostic:
    """Where `key` is written in `node`, or one level inside it (labels, `tool:`), to underline the key itself."""
    if isinstance(node, Mapping):
        if key in node.keys:
            return node.keys[key]
        for value in node.values.values():
            if isinstance(value, Mapping) and key in value.keys:
                return value.keys[key]
    return otherwise


def head(part: PositionedDiagnostic) -> DiagnosticPosition:
    """Where something long begins, at its first key, so that a whole mapping is not underlined."""
    node = getattr(part, "node", part)
    span = next(iter(node.keys.values())).span if isinstance(node, Mapping) and node.keys else part.span
    # One character: a key of several lines would underline everything up to its end.
    if span.line != span.end_line:
        span = Span(span.line, span.column, span.line, span.column + 1, span.start, span.start + 1)
    return DiagnosticPosition(part.path, span)


MAIN = "tasks"


class Pipeline(msgspec.Struct, frozen=True):
    """A list of tasks. `step` is None in the workbook; `part` names the place within the step."""

    step: StepSyntax | None
    part: str
    items: tuple[TaskSyntax | Sugar, ...]

    @property
    def tasks(self) -> tuple[TaskSyntax, ...]:
        """The plain tasks: all items, once sugar is expanded."""
        return tuple(item for item in self.items if isinstance(item, TaskSyntax))

    @property
    def in_workbook(self) -> bool:
        return self.step is None

    @property
    def is_hook(self) -> bool:
        return self.part.rpartition("/")[2] in HOOKS


Change = Callable[[Pipeline], tuple[TaskSyntax | Sugar, ...]]
HOOKS = ("before", "after", "finally")


def pipelines(playbook: Playbook) -> list[Pipeline]:
    """All pipelines in document order, hooks after the pipeline they belong to."""
    found: list[Pipeline] = []

    def collect_pipeline(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
        found.append(pipeline)
        return pipeline.items

    # By the same walk as rewriting, so that checks and rewriting see the same places.
    rewrite(playbook, collect_pipeline)
    return found


def every_task(playbook: Playbook) -> Iterator[tuple[TaskSyntax, Pipeline]]:
    for pipeline in pipelines(playbook):
        for task in pipeline.tasks:
            yield task, pipeline


def rewrite_tasks(playbook: Playbook, change: Callable[[TaskSyntax, Pipeline], TaskSyntax]) -> Playbook:
    """The playbook with every plain task changed, one for one."""

    def each(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
        return tuple(change(item, pipeline) if isinstance(item, TaskSyntax) else item for item in pipeline.items)

    return rewrite(playbook, each)


def rewrite(playbook: Playbook, change: Change) -> Playbook:
    """The playbook with every pipeline changed."""
    steps = tuple(_step(step, change) for step in playbook.steps)
    workbook = {
        name: _one(_run(None, f"workbook/{name}", (task,), change), task) for name, task in playbook.workbook.items()
    }
    return replace(playbook, steps=steps, workbook=workbook)


def _step(step: StepSyntax, change: Change) -> StepSyntax:
    new: dict[str, Any] = {}
    if step.tasks:
        new["tasks"] = _run(step, MAIN, step.tasks, change)
    if step.blocks.compensate or step.blocks.on_event:
        new["blocks"] = _blocks(step, change)
    if step.sink:
        new["sink"] = _one(_run(step, "sink", (step.sink,), change), step.sink)
    if step.retry:
        new["retry"] = _retries(step, "retry", step.retry, change)
    if step.case:
        rules = tuple(_case_rule(step, index, rule, change) for index, rule in enumerate(step.case.rules))
        new["case"] = replace(step.case, rules=rules)
    return replace(step, **new) if new else step


def _blocks(step: StepSyntax, change: Change) -> WaitBlocksSyntax:
    new: dict[str, Any] = {}
    if compensate := step.blocks.compensate:
        tasks = _plain(_run(step, "compensation", compensate.tasks, change))
        new["compensate"] = replace(compensate, tasks=tasks)
    if on_event := step.blocks.on_event:
        handlers = tuple(
            replace(each, tasks=_run(step, f"handlers/{index}", each.tasks, change))
            for index, each in enumerate(on_event.handlers)
        )
        new["on_event"] = replace(on_event, handlers=handlers)
    return replace(step.blocks, **new)


def _retries(step: StepSyntax, part: str, retries: tuple[RetrySyntax, ...], change: Change) -> tuple[RetrySyntax, ...]:
    return tuple(
        replace(retry, sink=_one(_run(step, f"{part}/{index}", (retry.sink,), change), retry.sink))
        if retry.sink
        else retry
        for index, retry in enumerate(retries)
    )


def _case_rule(step: StepSyntax, index: int, rule: CaseRuleSyntax, change: Change) -> CaseRuleSyntax:
    tasks = tuple(action for action in rule.actions if isinstance(action, TaskSyntax))
    # Only the tasks are a pipeline; writes and transitions keep their places between them.
    changed = iter(_plain(_run(step, f"case/{index}", tasks, change)) if tasks else ())
    actions = tuple(next(changed) if isinstance(action, TaskSyntax) else action for action in rule.actions)
    return replace(rule, actions=actions, retry=_retries(step, f"case/{index}/retry", rule.retry, change))


def _run(
    step: StepSyntax | None, part: str, items: tuple[TaskSyntax | Sugar, ...], change: Change
) -> tuple[TaskSyntax | Sugar, ...]:
    changed = change(Pipeline(step, part, items))
    # Hooks after the change: their path has the name of their task, which the change may give.
    return tuple(_hooks(step, part, item, change) if isinstance(item, TaskSyntax) else item for item in changed)


def _hooks(step: StepSyntax | None, part: str, task: TaskSyntax, change: Change) -> TaskSyntax:
    policy = task.policy
    if policy is None or not (policy.before or policy.after or policy.finally_):
        return task
    hooks = {
        field: _plain(_run(step, f"{part}/{task.name}/{word}", tasks, change))
        # `finally` is a word of Python, so that the field has another name.
        for word, field in zip(HOOKS, ("before", "after", "finally_"), strict=True)
        if (tasks := getattr(policy, field))
    }
    return replace(task, policy=replace(policy, **hooks))


def _plain(items: tuple[TaskSyntax | Sugar, ...]) -> tuple[TaskSyntax, ...]:
    return tuple(item for item in items if isinstance(item, TaskSyntax))


def _one(items: tuple[TaskSyntax | Sugar, ...], otherwise: TaskSyntax) -> TaskSyntax:
    return next((item for item in items if isinstance(item, TaskSyntax)), otherwise)
