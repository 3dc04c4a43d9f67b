"""Everything of a playbook that is rendered, each with the site where that happens.

One list for all checks of templates. What is not listed is never a template: workload, metadata, names, and inputs
that a kind takes verbatim (DOC-07, TOOL-07).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.base.source import is_template
from noetl.language.compiling.lowering.overlay import EXECUTOR_OPTIONS
from noetl.language.compiling.lowering.values import inner
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import HOOKS, MAIN, Pipeline, pipelines
from noetl.language.compiling.targets import arcs_of
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import CaseExit, LoopSyntax, Playbook, RetrySyntax, StepSyntax, TaskSyntax, Then
from noetl.templates.scopes import TemplateSite


class TemplateText(msgspec.Struct, frozen=True):
    """One text with a template in it. `what` names its place for messages; `into_ctx`: its value is kept in ctx;
    `own_args`: the keys of its task's own args, which SQL reads by name (O-11)."""

    scalar: Scalar
    site: TemplateSite
    what: str
    into_ctx: bool = False
    own_args: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return str(self.scalar.value)


class _Written(msgspec.Struct, frozen=True):
    node: Node | None
    site: TemplateSite
    what: str
    keys: bool = False  # the mapping's keys are rendered too (TPL-01)
    into_ctx: bool = False
    own_args: frozenset[str] = frozenset()


def written_texts(playbook: Playbook, compilation: Compilation) -> list[TemplateText]:
    """Every template text, in no particular order; each place once."""
    found: dict[tuple[Scalar, TemplateSite], TemplateText] = {}
    for written in _everything(playbook, compilation):
        for scalar in _scalars(written):
            if isinstance(scalar.value, str) and is_template(scalar.value):
                found[scalar, written.site] = TemplateText(
                    scalar, written.site, written.what, written.into_ctx, written.own_args
                )
    return list(found.values())


def _scalars(written: _Written) -> Iterator[Scalar]:
    if written.node is None:
        return
    if written.keys and isinstance(written.node, Mapping):
        yield from written.node.keys.values()
    yield from scalars(written.node)


def _everything(playbook: Playbook, compilation: Compilation) -> Iterator[_Written]:
    for entry in playbook.keychain:
        for key, _, node in entry.node.items():
            if key not in ("name", "kind"):
                yield _Written(node, TemplateSite.KEYCHAIN, f'the keychain entry "{entry.name}"')
    yield _Written(playbook.ctx, TemplateSite.INITIAL_CTX, "ctx", keys=True, into_ctx=True)
    yield from _of_executor(playbook.executor.spec if playbook.executor is not None else None)
    for step in playbook.steps:
        yield from _of_step(step)
    for pipeline in pipelines(playbook):
        for task in pipeline.tasks:
            yield from _of_task(task, pipeline, compilation)


def _of_executor(spec: Mapping | None) -> Iterator[_Written]:
    """What the execution itself is started with, and the defaults of all tasks."""
    for key, node in _options(spec):
        if key in ("pool", "concurrency"):
            yield _Written(node, TemplateSite.INITIAL_CTX, f"executor.spec.{key}")
        elif key not in EXECUTOR_OPTIONS:
            yield _Written(node, TemplateSite.TASK_INPUT, f"executor.spec.{key}")
    yield _Written(inner(spec, "policy", "emit"), TemplateSite.EMIT, "an emitted event")
    yield _Written(inner(spec, "policy", "lifecycle"), TemplateSite.TIMEOUT, "lifecycle")


def _of_step(step: StepSyntax) -> Iterator[_Written]:
    for rule in step.admit.rules if step.admit else ():
        yield _Written(rule.when, TemplateSite.ADMISSION, "an admission rule")
        yield _Written(rule.set_token, TemplateSite.ADMISSION, "an admission rule")
    yield from _of_loop(step.loop)
    yield _Written(step.args, TemplateSite.STEP_ARGS if step.loop is None else TemplateSite.LOOP_ARGS, "a step's args")
    yield _Written(step.set_ctx, TemplateSite.SET_CTX_STEP, "a step's set_ctx", keys=True, into_ctx=True)
    yield _Written(step.vars, TemplateSite.VARS, "vars", keys=True, into_ctx=True)
    for option in ("pool", "concurrency", "rate"):
        yield _Written(inner(step.spec, option), TemplateSite.ADMISSION, f"spec.{option}")
    yield _Written(inner(step.spec, "policy", "emit"), TemplateSite.EMIT, "an emitted event")
    yield _Written(inner(step.spec, "policy", "lifecycle"), TemplateSite.TIMEOUT, "lifecycle")
    yield from _of_waits(step)
    for arc in arcs_of(step):
        in_router = step.router is not None and arc in step.router.arcs
        site = TemplateSite.ARC if in_router else TemplateSite.CASE_THEN
        yield _Written(arc.when, site, "an arc's when")
        yield _Written(arc.args, site, "an arc's args")
        yield _Written(arc.set_ctx, site, "an arc's set_ctx", keys=True, into_ctx=True)
        yield _Written(arc.spec, site, "an arc's spec")
        yield _Written(arc.target if arc.template else None, site, "a computed target")
    yield from _of_retries(step.retry)
    yield from _of_case(step)


def _of_loop(loop: LoopSyntax | None) -> Iterator[_Written]:
    site = TemplateSite.LOOP_IN
    while loop is not None:
        yield _Written(loop.items, site, "a loop's in")
        yield _Written(loop.max_in_flight, site, "max_in_flight")
        yield _Written(inner(loop.spec, "policy", "backpressure"), site, "backpressure")
        yield _Written(inner(loop.spec, "policy", "partitioning"), TemplateSite.NESTED_LOOP_IN, "partitioning")
        yield _Written(inner(loop.spec, "complete_when"), TemplateSite.NESTED_LOOP_IN, "complete_when")
        loop, site = loop.inner, TemplateSite.NESTED_LOOP_IN


def _of_waits(step: StepSyntax) -> Iterator[_Written]:
    if step.timer:
        for node in (step.timer.id, step.timer.duration, step.timer.until):
            yield _Written(node, TemplateSite.WAIT, "a timer")
    if step.message:
        for node in (step.message.name, step.message.correlation, step.message.timeout):
            yield _Written(node, TemplateSite.WAIT, "a message")
    if step.signal:
        yield _Written(step.signal.name, TemplateSite.WAIT, "a signal")
    if step.human_task:
        task = step.human_task
        people = (task.role, task.user, task.escalate_to_role, task.escalate_to_user)
        for node in (task.title, *people, task.due_date, task.escalate_after, *(field.default for field in task.form)):
            yield _Written(node, TemplateSite.WAIT, "a human task")
    if step.timeout:
        yield _Written(step.timeout.duration, TemplateSite.TIMEOUT, "a timeout")
    for handler in step.on_event.handlers if step.on_event else ():
        yield _Written(handler.when, TemplateSite.HANDLER, "an event handler")


def _of_case(step: StepSyntax) -> Iterator[_Written]:
    for rule in step.case.rules if step.case else ():
        yield _Written(rule.when, TemplateSite.CASE_WHEN, "a case condition")
        yield from _of_retries(rule.retry)
        for action in rule.actions:
            if isinstance(action, CaseExit):
                yield _Written(action.delay, TemplateSite.CASE_THEN, "a transition's delay")
                yield _Written(action.guard, TemplateSite.CASE_THEN, "a transition's guard")
            elif not isinstance(action, TaskSyntax):
                yield _Written(action.values, TemplateSite.CASE_THEN, "set", keys=True, into_ctx=True)


def _of_retries(retries: tuple[RetrySyntax, ...]) -> Iterator[_Written]:
    for retry in retries:
        for node in (
            retry.when,
            retry.max_attempts,
            retry.initial_delay,
            retry.multiplier,
            retry.max_delay,
            retry.jitter,
        ):
            yield _Written(node, TemplateSite.RETRY, "a retry policy")
        yield _Written(retry.next_call, TemplateSite.RETRY, "next_call")


def _of_task(task: TaskSyntax, pipeline: Pipeline, compilation: Compilation) -> Iterator[_Written]:
    kind = compilation.kinds.get(task.kind)
    verbatim = {known.name for known in kind.inputs if known.verbatim} if kind else set()
    sql = {known.name for known in kind.inputs if known.sql} if kind else set()
    args = task.inputs.get("args")
    own_args = frozenset(args.keys) if isinstance(args, Mapping) else frozenset[str]()
    site = _site(pipeline)
    for key, node in task.inputs.items():
        if key not in verbatim:
            yield _Written(node, site, f'the input "{key}"', own_args=own_args if key in sql else frozenset())
    for node in task.bound:
        yield _Written(node, site, "args")
    for node in (*task.knobs.values(), *(value for key, value in _options(task.spec) if key != "policy")):
        yield _Written(node, site, "a task's spec")
    for rule in task.policy.rules if task.policy else ():
        yield _Written(rule.when, TemplateSite.TASK_POLICY, "a policy rule")
        yield from _of_then(rule.then)


def _options(spec: Mapping | None) -> Iterator[tuple[str, Node]]:
    return iter(spec.values.items() if spec else ())


def _of_then(then: Then) -> Iterator[_Written]:
    for node in (then.attempts, then.delay, then.max_delay, then.jitter, then.set_prev):
        yield _Written(node, TemplateSite.TASK_POLICY, "a policy rule")
    yield _Written(then.set_ctx, TemplateSite.TASK_POLICY, "set_ctx", keys=True, into_ctx=True)
    for word, node in (("set_iter", then.set_iter), ("set_vars", then.set_vars), ("set_shared", then.set_shared)):
        yield _Written(node, TemplateSite.TASK_POLICY, word, keys=True)


def _site(pipeline: Pipeline) -> TemplateSite:
    """Where a pipeline's inputs are rendered decides which names they see."""
    part = pipeline.part
    last = part.rpartition("/")[2]
    if last in HOOKS:
        return TemplateSite.TASK_INPUT if last == "before" else TemplateSite.TASK_POLICY
    if part == MAIN or pipeline.in_workbook:
        return TemplateSite.TASK_INPUT
    if part == "sink":
        return TemplateSite.SINK
    if part == "compensation":
        return TemplateSite.COMPENSATE
    if part.startswith("handlers/"):
        return TemplateSite.HANDLER_TASK
    return (
        TemplateSite.SINK if "retry/" in part else TemplateSite.CASE_THEN
    )  # a retry has no task but the sink of its pages
