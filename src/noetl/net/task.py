"""Tasks, policies and rules: the pipeline of one transition, compiled. Also the SQL in the ends of a transfer.

Everything that may be a template is `Authored`; everything else is literal. Nothing here points back into the
document: the debug map does (`net.debug`), so that comments and layout never change a net's hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from noetl.templates.values import Authored


class Directive(StrEnum):
    RETRY = "retry"
    JUMP = "jump"
    CONTINUE = "continue"
    BREAK = "break"
    FAIL = "fail"


class Backoff(StrEnum):
    NONE = "none"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class _Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the net's plain data: equal by value, small when written as JSON."""


class Retry(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """How `do: retry` repeats a task (POL-05…08)."""

    attempts: Authored  # the first one included
    backoff: Backoff = Backoff.NONE
    delay: Authored | None = None
    max_delay: Authored | None = None
    jitter: Authored | None = None
    on_exhausted: Directive = Directive.FAIL


class Mutations(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """The assignments of a rule. Keys of the mappings may be templates too (TPL-01)."""

    set_iter: Authored | None = None
    set_ctx: Authored | None = None
    set_vars: Authored | None = None  # v2-eval
    set_shared: Authored | None = None  # v2-eval
    set_prev: Authored | None = None  # v2-eval


class Rule(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """`when` is None for else."""

    when: Authored | None = None
    do: Directive = Directive.CONTINUE
    to: str | None = None  # the task that `jump` goes to
    retry: Retry | None = None
    error: Authored | None = None  # the error of `fail`, instead of the outcome's own error
    mutations: Mutations | None = None


class Policy(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """The rules for each outcome of a task."""

    # In YAML order; the first that matches decides.
    rules: tuple[Rule, ...] = ()
    # The directive for an unmatched *error*; successes continue. Each dialect has its own default (POL-04).
    on_unmatched: Directive = Directive.CONTINUE
    # Hooks: tasks around this one. `finally` runs even when the time of the step is over (POL-13).
    before: tuple[Task, ...] = ()
    after: tuple[Task, ...] = ()
    finally_: tuple[Task, ...] = msgspec.field(default=(), name="finally")


class Collect(_Data, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    into: str
    strategy: str = "append"


class Repeat(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One retry policy of a v2-case call (V2C-16…19); `when` None means: on errors."""

    when: Authored | None = None
    max_attempts: Authored | None = None
    initial_delay: Authored | None = None
    multiplier: Authored | None = None
    max_delay: Authored | None = None
    mode: str = "exponential"
    jitter: Authored | None = None
    on_exhausted: Directive = Directive.FAIL
    next_call: Authored | None = None
    collect: Collect | None = None
    sink: Task | None = None


class Task(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call of a pipeline. Its lines are in the debug map: a net is the same however its text is laid out."""

    name: str
    kind: str
    # Rendered for every attempt.
    inputs: Authored = Authored({})
    # Never rendered: python's `code`.
    verbatim: dict[str, Any] = {}
    # The effective overlay of SPEC-02, without any policy.
    spec: Authored = Authored({})
    # None: errors fail.
    policy: Policy | None = None
    # A workbook reference's arguments, readable as `args` inside the task (TOOL-10). Where references lead through each
    # other, each of `inner_args` is rendered with the one before it as `args`.
    args: Authored | None = None
    inner_args: tuple[Authored, ...] = ()
    # Retry policies of a v2-case call; the first that holds decides.
    repeat: tuple[Repeat, ...] = ()
    # A task that the compiler made: from choose, while or until, and the path of that construct in the document
    # (SUGAR-06).
    generated: str | None = None
    origin: str | None = None
    submits_job: bool = False  # a job that runs on after the task has ended: cancelled with the execution (SRV-11)


def with_hooks(tasks: Iterable[Task]) -> Iterator[Task]:
    """Each with the sinks of its retries and its hooks after it."""
    for task in tasks:
        yield task
        yield from (policy.sink for policy in task.repeat if policy.sink is not None)
        if task.policy is not None:
            yield from (*task.policy.before, *task.policy.after, *task.policy.finally_)


def credential_input(task: Task) -> dict[str, Any]:
    """The input that names the credential of a task, as it is written."""
    inputs = task.inputs.data if isinstance(task.inputs.data, dict) else {}
    return {key: value for key, value in inputs.items() if key in ("auth", "credential")}


# The ends of a transfer: SQL in `source` and `target` is bound like that of the kinds that run it (design.md §8).

TRANSFER = "transfer"
ENDS = ("source", "target")
SQL_KEYS = ("command", "query")


class EndsSql(msgspec.Struct, frozen=True):
    """`sql` by end and key, and the ends without it, `plain`; both empty for other kinds."""

    plain: dict[str, Any] = {}
    sql: dict[str, dict[str, Any]] = {}


def ends_sql(kind: str, written: dict[str, Any]) -> EndsSql:
    """The SQL in the inputs of a transfer, separate from the rendered inputs."""
    if kind != TRANSFER:
        return EndsSql()
    sql = {end: _sql(written.get(end)) for end in ENDS}
    sql = {end: texts for end, texts in sql.items() if texts}
    plain = {end: {key: value for key, value in written[end].items() if key not in sql[end]} for end in sql}
    return EndsSql(plain, sql)


def _sql(end: Any) -> dict[str, Any]:
    return {key: end[key] for key in SQL_KEYS if key in end} if isinstance(end, dict) else {}
