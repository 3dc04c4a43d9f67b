"""The parts of a step that a case run walks through: which steps have one, and their tasks by address.

Names of tasks may repeat within a step (every `sink` of a mapping is called the same), so a position holds an address.
"""

from __future__ import annotations

from noetl.base.errors import TemplateError, ToolError
from noetl.events.outcomes import Error
from noetl.net.net import Transition
from noetl.net.task import Repeat, Task

CALL, SINK = "call", "sink"


def has_rules(step: Transition) -> bool:
    """Whether the step's runs are case runs, and not plain pipelines."""
    return bool(step.case or step.sink or [task for task in step.tasks if task.repeat])


def call_of(step: Transition) -> Task | None:
    """The one call of a v2-case step; its `tool` is optional (V2C-14)."""
    return step.tasks[0] if step.tasks else None


def policies_of(step: Transition, rule: int | None) -> tuple[Repeat, ...]:
    """The retry policies of the step's own call, or of a case rule."""
    if rule is not None and step.case is not None:
        return step.case.rules[rule].repeat
    call = call_of(step)
    return call.repeat if call else ()


def page_address(rule: int | None, policy: int) -> str:
    """The sink of a retry policy."""
    return f"retry/{policy}" if rule is None else f"case/{rule}/retry/{policy}"


def action_address(rule: int, action: int) -> str:
    return f"case/{rule}/{action}"


def task_at(step: Transition, address: str) -> Task:
    """The task at an address that a walk has given."""
    found: Task | None
    match address.split("/"):
        case ["call"]:
            found = call_of(step)
        case ["sink"]:
            found = step.sink
        case ["retry", policy]:
            found = policies_of(step, None)[int(policy)].sink
        case ["case", rule, "retry", policy]:
            found = policies_of(step, int(rule))[int(policy)].sink
        case ["case", rule, action]:
            assert step.case is not None
            found = step.case.rules[int(rule)].actions[int(action)].task
        case _:
            found = None
    assert found is not None, f'step "{step.name}" has no task at "{address}"'
    return found


def is_rule_sink(step: Transition, address: str) -> bool:
    """Whether the task there is the `sink` of a rule's mapping."""
    match address.split("/"):
        case ["case", rule, action] if step.case is not None:
            return step.case.rules[int(rule)].actions[int(action)].sink
        case _:
            return False


def is_page_sink(address: str) -> bool:
    return "retry" in address.split("/")


# A case that cannot be evaluated: a template of its author failed, which is never "no match" (TPL-09).


class BrokenCase(Exception):  # noqa: N818  a mistake in the playbook, reported to its author
    """The step run ends here; `where` says which part of the step failed."""

    def __init__(self, where: str, problem: TemplateError | ToolError | ValueError) -> None:
        super().__init__(where, problem)
        self.where, self.problem = where, problem

    def error(self, step: str) -> Error:
        kind = getattr(self.problem, "kind", TemplateError.kind)
        return Error(kind=kind, message=f'{self.where} of step "{step}": {self.problem}')
