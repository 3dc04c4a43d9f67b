"""Everything of a playbook that is rendered, each with the site where that happens.

One list for all checks of templates; the grammar says where the templates of a key are rendered. Other texts are never
templates: workload, metadata, names, and inputs that a kind takes verbatim (DOC-07, TOOL-07).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError
from noetl.language.compiling.lowering.values import EXECUTOR_OPTIONS
from noetl.language.compiling.passes import HOOKS, MAIN, Compilation, Pipeline, pipelines
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.text_positions import place_in
from noetl.language.grammar import steps, waits
from noetl.language.grammar.model import Construct
from noetl.language.grammar.policies import ADMISSION, DIRECTIVE, LOOP_POLICY
from noetl.language.grammar.root import EXECUTOR_SPEC, NOTIFICATION, ROOT
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner, scalars
from noetl.language.reading.playbook import CaseExit, LoopSyntax, Playbook, RetrySyntax, StepSyntax, TaskSyntax, Then
from noetl.templates.expression import parse
from noetl.templates.scope import TemplateSite

_STEP = re.compile(r"workflow\[(\d+)\]")


class TemplateText(msgspec.Struct, frozen=True):
    """One text with a template in it. `what` names its place for messages; `into_ctx`: its value is kept in ctx;
    `own_args`: the keys of its task's own args, which SQL reads by name (O-11); `is_value`: it is data, and no SQL,
    command or words for people."""

    scalar: Scalar
    site: TemplateSite
    what: str
    into_ctx: bool = False
    own_args: frozenset[str] = frozenset()
    is_value: bool = True

    @property
    def text(self) -> str:
        return str(self.scalar.value)

    def step_of(self, playbook: Playbook) -> StepSyntax | None:
        """The step that contains the text; None outside of all steps, as in the workbook."""
        found = _STEP.match(self.scalar.path)
        return playbook.steps[int(found[1])] if found and int(found[1]) < len(playbook.steps) else None


class _Written(msgspec.Struct, frozen=True):
    node: Node | None
    site: TemplateSite
    what: str
    # Keys of the mapping are rendered too (TPL-01).
    keys: bool = False
    into_ctx: bool = False
    own_args: frozenset[str] = frozenset()
    is_value: bool = True


def written_texts(playbook: Playbook, compilation: Compilation) -> list[TemplateText]:
    """Every template text, in no particular order; each place once."""
    # By place and site: the text of a workbook's task is listed once, however many steps refer to it.
    found: dict[tuple[Scalar, TemplateSite], TemplateText] = {}
    for written in _all_sites(playbook, compilation):
        for scalar in _scalars(written):
            if isinstance(scalar.value, str) and is_template(scalar.value):
                found[scalar, written.site] = TemplateText(
                    scalar, written.site, written.what, written.into_ctx, written.own_args, written.is_value
                )
    return list(found.values())


def written_values(playbook: Playbook, compilation: Compilation) -> Iterator[tuple[Node, str]]:
    """Every value that would be rendered if it were a template, and what it is; not SQL, commands and words for
    people."""
    return ((one.node, one.what) for one in _all_sites(playbook, compilation) if one.node is not None and one.is_value)


def _scalars(written: _Written) -> Iterator[Scalar]:
    if written.node is None:
        return
    if written.keys and isinstance(written.node, Mapping):
        yield from written.node.keys.values()
    yield from scalars(written.node)


def _of_key(construct: Construct, name: str, node: Node | None, site: TemplateSite | None = None) -> _Written:
    """The templates of one key by the grammar; `site` where the place decides about it."""
    rendered = construct[name].rendered
    assert rendered is not None
    what = rendered.what or f"{construct.what}'s {name}"
    return _Written(node, site or rendered.site, what, rendered.names, rendered.into_ctx)


def _of_block(construct: Construct, node: Node | None) -> Iterator[_Written]:
    """The templates of a construct and of the constructs inside it."""
    for name, _, value in node.items() if isinstance(node, Mapping) else ():
        key = construct.get(name)
        if key is None:
            continue
        if key.rendered is not None:
            yield _of_key(construct, name, value)
        elif isinstance(key.shape, Construct):
            for block in value if isinstance(value, Sequence) and key.items else (value,):
                yield from _of_block(key.shape, block)


def _all_sites(playbook: Playbook, compilation: Compilation) -> Iterator[_Written]:
    for entry in playbook.keychain:
        for key, _, node in entry.node.items():
            if key not in ("name", "kind"):
                yield _Written(node, TemplateSite.KEYCHAIN, f'the keychain entry "{entry.name}"')
    yield _of_key(ROOT, "ctx", playbook.ctx)
    yield from _of_executor(playbook.executor.spec if playbook.executor is not None else None)
    for one in playbook.notifications:
        yield from _of_block(NOTIFICATION[one.event], one.node)
    for step in playbook.steps:
        yield from _of_step(step)
    for pipeline in pipelines(playbook):
        for task in pipeline.tasks:
            yield from _of_task(task, pipeline, compilation)


def _of_executor(spec: Mapping | None) -> Iterator[_Written]:
    """The templates of the executor: start values of the execution, and the defaults of all tasks."""
    yield from _of_block(EXECUTOR_SPEC, spec)
    for key, node in _options(spec):
        if key not in EXECUTOR_OPTIONS:
            yield _Written(node, TemplateSite.TASK_INPUT, f"executor.spec.{key}")


def _of_step(step: StepSyntax) -> Iterator[_Written]:
    for rule in step.admit.rules if step.admit else ():
        yield _Written(rule.when, TemplateSite.ADMISSION, "an admission rule")
        yield _of_key(ADMISSION, "set_token", rule.set_token)
    yield from _of_loop(step.loop)
    yield _of_key(
        steps.STEP, "args", step.args, TemplateSite.STEP_ARGS if step.loop is None else TemplateSite.LOOP_ARGS
    )
    yield _of_key(steps.STEP, "set_ctx", step.set_ctx)
    yield _of_key(steps.STEP, "vars", step.vars)
    yield from _of_block(steps.STEP_SPEC, step.spec)
    yield from _of_waits(step)
    for arc in arcs_of(step):
        in_router = step.router is not None and arc in step.router.arcs
        site = TemplateSite.ARC if in_router else TemplateSite.CASE_THEN
        for key, node in (("when", arc.when), ("args", arc.args), ("set_ctx", arc.set_ctx), ("spec", arc.spec)):
            yield _of_key(steps.ARC, key, node, site)
        yield _Written(arc.target if arc.template else None, site, "a computed target")
    yield from _of_retries(step.retry)
    yield from _of_case(step)


def _of_loop(loop: LoopSyntax | None) -> Iterator[_Written]:
    site = TemplateSite.LOOP_IN
    while loop is not None:
        yield _of_key(steps.LOOP, "in", loop.items, site)
        yield _of_key(steps.LOOP_SPEC, "max_in_flight", loop.max_in_flight, site)
        yield _of_key(LOOP_POLICY, "backpressure", inner(loop.spec, "policy", "backpressure"), site)
        yield _of_key(LOOP_POLICY, "partitioning", inner(loop.spec, "policy", "partitioning"))
        yield _of_key(steps.LOOP_SPEC, "complete_when", inner(loop.spec, "complete_when"))
        # From the second level on `iter` is there: the element of the level around.
        loop, site = loop.inner, TemplateSite.NESTED_LOOP_IN


def _of_waits(step: StepSyntax) -> Iterator[_Written]:
    blocks = (
        (waits.TIMER, step.blocks.timer),
        (waits.MESSAGE, step.blocks.message),
        (waits.SIGNAL, step.blocks.signal),
        (waits.HUMAN_TASK, step.blocks.human_task),
        (waits.TIMEOUT, step.blocks.timeout),
    )
    for construct, block in blocks:
        yield from _of_block(construct, block.node if block else None)
    for handler in step.blocks.on_event.handlers if step.blocks.on_event else ():
        yield _of_key(waits.HANDLER, "when", handler.when)


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
    worded = {known.name for known in kind.inputs if known.sql or known.quoted or known.prose} if kind else set()
    args = task.inputs.get("args")
    own_args = frozenset(args.keys) if isinstance(args, Mapping) else frozenset[str]()
    site = _site(pipeline)
    for key, node in task.inputs.items():
        if key not in verbatim:
            own = own_args if key in sql else frozenset[str]()
            yield _Written(node, site, f'the input "{key}"', own_args=own, is_value=key not in worded)
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
    for key in DIRECTIVE.keys:
        if key.rendered is not None:
            yield _of_key(DIRECTIVE, key.name, getattr(then, key.name))


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
    # A retry has no task but the sink of its pages.
    return TemplateSite.SINK if "retry/" in part else TemplateSite.CASE_THEN


# Template syntax: every text that will be rendered parses, and stays within the sandbox (VAL-15, TPL-11).

_LOOKS = 'an expression looks like "{{ workload.name }}" or "{{ ctx.count + 1 }}"'
# The meaning in another language of the token that the parser refused.
_MEANT = {
    'char "&"': 'write "and"',
    'got "|"': 'write "or"',
    'char "!"': 'write "not"',
    'char "?"': "write {{ this if condition else that }}",
    '"="': "compare with ==",
    "end of template": "close {{ with }}, {% for %} with {% endfor %}, {% if %} with {% endif %}",
}


def check_template_syntax(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TEMPLATE at the exact place; nothing is evaluated."""
    for written in written_texts(playbook, compilation):
        try:
            parse(written.text)
        except TemplateError as error:
            place = place_in(written.scalar, error.offset, playbook.source)
            wrong, hint = _split_message(error.message)
            compilation.note("E_TEMPLATE", place, f"this template cannot be used: {wrong}", hint or _way_out(wrong))
    return playbook


def _split_message(message: str) -> tuple[str, str]:
    """The problem and the fix, if the message has both: `there is no filter "x": use y`."""
    wrong, _, way_out = message.partition('": ')
    return (f'{wrong}"', way_out) if way_out else (message, "")


def _way_out(wrong: str) -> str:
    return next((way_out for mark, way_out in _MEANT.items() if mark in wrong), _LOOKS)
