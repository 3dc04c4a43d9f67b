"""Every task of a transition, wherever it stands: its pipeline, sinks, case rules, hooks, compensation, handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from noetl.net.net import Transition
from noetl.net.task import Task


def tasks_of(step: Transition) -> Iterable[Task]:
    """In document order, hooks after the task they belong to."""
    # Most steps have nothing around their tasks. When a net runs for the first time, ten analyses ask each step for
    # its tasks; generators would cost each of them ten times as much as the tuple that is there already.
    if step.sink is not None or step.case is not None or step.compensation is not None or step.handlers is not None:
        return _all_tasks(step)
    for task in step.tasks:
        if task.repeat or task.policy is not None:
            return _all_tasks(step)
    return step.tasks


def _all_tasks(step: Transition) -> Iterator[Task]:
    return with_hooks((*_own(step), *_side_tasks(step)))


def pipeline_of(step: Transition) -> Iterator[Task]:
    """Those that an order of the step may run: neither compensation nor handlers, which are run by orders of their
    own."""
    return with_hooks(_own(step))


def with_hooks(tasks: Iterable[Task]) -> Iterator[Task]:
    """Each with the sinks of its retries and its hooks after it."""
    for task in tasks:
        yield task
        yield from (policy.sink for policy in task.repeat if policy.sink is not None)
        if task.policy is not None:
            yield from (*task.policy.before, *task.policy.after, *task.policy.finally_)


def _own(step: Transition) -> Iterator[Task]:
    yield from step.tasks
    if step.sink is not None:
        yield step.sink
    for rule in step.case.rules if step.case else ():
        yield from (action.task for action in rule.actions if action.task is not None)
        yield from (policy.sink for policy in rule.repeat if policy.sink is not None)


def _side_tasks(step: Transition) -> Iterator[Task]:
    if step.compensation is not None:
        yield from step.compensation.tasks
    for handler in step.handlers.handlers if step.handlers else ():
        yield from handler.tasks


def submitting_task(step: Transition) -> Task | None:
    """The first task, as it is written, that submits a job to a provider, which goes on when the task is over
    (QNT-01)."""
    return next((task for task in pipeline_of(step) if task.submits_job), None)


def credential_input(task: Task) -> dict[str, Any]:
    """The input that names the credential of a task, as it is written."""
    inputs = task.inputs.data if isinstance(task.inputs.data, dict) else {}
    return {key: value for key, value in inputs.items() if key in ("auth", "credential")}


# The ends of a transfer: SQL in `source` and `target` is bound like that of the kinds that run it (design.md §8).

KIND = "transfer"
ENDS = ("source", "target")
SQL_KEYS = ("command", "query")


class EndsSql(msgspec.Struct, frozen=True):
    """`sql` by end and key, and the ends without it, `plain`; both empty for other kinds."""

    plain: dict[str, Any] = {}
    sql: dict[str, dict[str, Any]] = {}


def ends_sql(kind: str, written: dict[str, Any]) -> EndsSql:
    """What is SQL in the inputs of a transfer, apart from what is rendered."""
    if kind != KIND:
        return EndsSql()
    sql = {end: _sql(written.get(end)) for end in ENDS}
    sql = {end: texts for end, texts in sql.items() if texts}
    plain = {end: {key: value for key, value in written[end].items() if key not in sql[end]} for end in sql}
    return EndsSql(plain, sql)


def _sql(end: Any) -> dict[str, Any]:
    return {key: end[key] for key in SQL_KEYS if key in end} if isinstance(end, dict) else {}
