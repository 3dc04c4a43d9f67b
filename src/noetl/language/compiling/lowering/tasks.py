"""Tasks, lowered: inputs apart from what is never rendered, the effective spec, the policy, the repetitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from noetl.language.compiling.guards import ERROR_OUTCOME, decided, shape_of
from noetl.language.compiling.lowering.values import Layers, Lowering, authored, written
from noetl.language.compiling.passes import key_place
from noetl.language.reading.nodes import Mapping, data, scalars
from noetl.language.reading.playbook import Dialect, RetrySyntax, StepSyntax, Sugar, TaskSyntax, Then
from noetl.language.reading.playbook import PolicySyntax as WrittenPolicy
from noetl.language.reading.playbook import RuleSyntax as WrittenRule
from noetl.language.reading.shared_checks import is_templated
from noetl.net.debug import pipeline_address
from noetl.net.task import Backoff, Collect, Directive, Mutations, Policy, Repeat, Retry, Rule
from noetl.net.task import Task as NetTask
from noetl.templates.logic import Const
from noetl.templates.values import Authored


class TaskLowering:
    """Lowers the tasks of one step, which share its layers of spec."""

    def __init__(self, lowering: Lowering, step: StepSyntax) -> None:
        self._lowering, self._step = lowering, step
        playbook = lowering.playbook
        # Once for the step: executor, step and loop are the same for all its tasks.
        self._layers = Layers(playbook.executor, step, playbook.dialect.rules)

    def pipeline(self, items: tuple[TaskSyntax | Sugar, ...], part: str = "") -> tuple[NetTask, ...]:
        """A list of tasks; `part` names the place within the step, nothing for its own `tool` list."""
        base = pipeline_address(self._step.name, part)
        outer = self._step.args if not part and self._lowering.playbook.dialect is Dialect.V2_CASE else None
        return tuple(self.task(item, f"{base}/{item.name}", outer) for item in items if isinstance(item, TaskSyntax))

    def task(self, task: TaskSyntax, address: str, outer: Mapping | None = None) -> NetTask:
        """`outer` are the step's args, which a v2-case step hands to its tool under the tool's own (V2C-03)."""
        self._lowering.trace_task(address, task)
        kind = self._lowering.kinds.get(task.kind)
        known = {each.name: each for each in kind.inputs} if kind else {}
        # Apart from the inputs, so that nothing at run time can take code for a template.
        verbatim = {key for key in task.inputs if key in known and known[key].verbatim}
        inputs = {key: data(node) for key, node in task.inputs.items() if key not in verbatim}
        # A noop would return them as its result, which the author did not ask for.
        if outer is not None and "args" in known and task.kind != "noop" and isinstance(inputs.get("args", {}), dict):
            inputs["args"] = {**self._step_args(outer, task), **inputs.get("args", {})}
        return NetTask(
            name=task.name or "",
            kind=task.kind,
            inputs=Authored(inputs),
            verbatim={key: data(task.inputs[key]) for key in task.inputs if key in verbatim},
            spec=Authored(self._layers.effective(task, kind)),
            policy=lower_policy(self._lowering, task, address, self._hooks),
            args=authored(task.bound[0]) if task.bound else None,
            inner_args=tuple(Authored(data(each)) for each in task.bound[1:]),
            generated=task.generated,
            # Stored with the net: the log names the construct of the author, and has no debug map.
            origin=self._lowering.debug[address].path if task.generated else None,
            submits_job=kind is not None and (inputs.get("op") or "") in kind.job_ops,
        )

    def _step_args(self, outer: Mapping, task: TaskSyntax) -> dict[str, Any]:
        """The args of the step in its run: args of the token override them, as in every dialect (design.md §8). Args
        that may read an iteration are unchanged; and a workbook task reads the args of its reference as `args`."""
        if task.bound:
            return dict(data(outer))
        in_loop = self._step.loop is not None
        return {
            key: data(node)
            if in_loop and any(map(is_templated, scalars(node)))
            else f"{{{{ args[{json.dumps(key)}] }}}}"
            for key, node in outer.values.items()
        }

    def _hooks(self, tasks: tuple[TaskSyntax, ...], address: str) -> tuple[NetTask, ...]:
        return tuple(self.task(task, f"{address}/{task.name}") for task in tasks)

    def repeats(self, retries: tuple[RetrySyntax, ...], part: str) -> tuple[Repeat, ...]:
        """The retry policies of a v2-case call (V2C-16…19)."""
        return tuple(self._repeat(retry, f"{part}/{index}") for index, retry in enumerate(retries))

    def _repeat(self, retry: RetrySyntax, part: str) -> Repeat:
        base = pipeline_address(self._step.name, part)
        collect = retry.collect
        return Repeat(
            when=authored(retry.when),
            max_attempts=authored(retry.max_attempts),
            initial_delay=authored(retry.initial_delay),
            multiplier=authored(retry.multiplier),
            max_delay=authored(retry.max_delay),
            mode=retry.mode or ("fixed" if retry.multiplier is None else "exponential"),
            jitter=authored(retry.jitter),
            on_exhausted=Directive(retry.on_exhausted) if retry.on_exhausted else Directive.FAIL,
            next_call=authored(retry.next_call),
            collect=Collect(path=collect.path_text, into=collect.into, strategy=collect.strategy) if collect else None,
            sink=self.task(retry.sink, f"{base}/{retry.sink.name}") if retry.sink else None,
        )


# Policies and rules of tasks, lowered with each dialect's defaults written out (POL-02…04, V2E-03, V2E-04, C-03).

# The default that 000 and 003 leave open: an error without a matching rule fails, a success continues (V2E-04).
_DEFAULT_PAIR = (
    Rule(when=Authored("{{ outcome.status == 'error' }}"), do=Directive.FAIL),
    Rule(do=Directive.CONTINUE),
)


def lower_policy(
    lowering: Lowering,
    task: TaskSyntax,
    address: str,
    lower_hooks: Callable[[tuple[TaskSyntax, ...], str], tuple[NetTask, ...]],
) -> Policy | None:
    """None means "no policy": success continues, an error fails (POL-03)."""
    policy = task.policy
    if policy is None:
        if lowering.playbook.dialect is not Dialect.V2_EVAL:
            return None
        # v2-eval has no implicit policy in the net: its default is written out, and the engine needs to know no
        # dialect.
        _trace_defaults(lowering, task, address, 0, len(_DEFAULT_PAIR))
        return Policy(rules=_DEFAULT_PAIR)
    for index, rule in enumerate(policy.rules):
        # A generated rule has no text of its own, so it points at its construct.
        made = task.generated if rule.when is None else None
        lowering.trace(f"{address}/rules/{index}", key_place(task.node, made, rule) if made else rule, made or "")
    rules = _rules(policy)
    if len(rules) > len(policy.rules):
        _trace_defaults(lowering, task, address, len(policy.rules), len(rules))
    return Policy(
        rules=rules,
        on_unmatched=_on_unmatched(policy, lowering.on_unmatched),
        before=lower_hooks(policy.before, f"{address}/before"),
        after=lower_hooks(policy.after, f"{address}/after"),
        finally_=lower_hooks(policy.finally_, f"{address}/finally"),
    )


def _trace_defaults(lowering: Lowering, task: TaskSyntax, address: str, first: int, end: int) -> None:
    """Map the default rules to the task they belong to."""
    for index in range(first, end):
        lowering.trace(f"{address}/rules/{index}", task.name_node or task, "default")


def _rules(policy: WrittenPolicy) -> tuple[Rule, ...]:
    rules = tuple(_rule(rule) for rule in policy.rules)
    if not policy.strict or any(rule.when is None for rule in policy.rules):
        return rules
    # If a rule of the author takes every error, a second such rule would never decide.
    shapes = [shape_of(rule.when) for rule in policy.rules]
    takes_errors = any(shape != Const(True) and decided(shape, ERROR_OUTCOME) is True for shape in shapes)
    return rules + (_DEFAULT_PAIR[1:] if takes_errors else _DEFAULT_PAIR)


def _on_unmatched(policy: WrittenPolicy, default: Directive) -> Directive:
    # A strict policy leaves no outcome unmatched.
    if policy.strict:
        return Directive.CONTINUE
    return Directive(policy.on_unmatched) if policy.on_unmatched else default


def _rule(rule: WrittenRule) -> Rule:
    then = rule.then
    return Rule(
        when=authored(rule.when),
        do=Directive(then.do),
        to=str(then.to.value) if then.to is not None and then.do == "jump" else None,
        retry=_retry(then) if then.do == "retry" else None,
        error=authored(then.error),
        mutations=_mutations(then),
    )


def _retry(then: Then) -> Retry:
    backoff = Backoff(then.backoff) if then.backoff else Backoff.NONE
    # A growing delay needs a first value: one second (POL-07).
    delay = authored(then.delay) or (Authored(1) if backoff is not Backoff.NONE else None)
    return Retry(
        attempts=written(then.attempts, 1),
        backoff=backoff,
        delay=delay,
        max_delay=authored(then.max_delay),
        jitter=authored(then.jitter),
        on_exhausted=Directive(then.on_exhausted) if then.on_exhausted else Directive.FAIL,
    )


def _mutations(then: Then) -> Mutations | None:
    writes = Mutations(
        set_iter=authored(then.set_iter),
        set_ctx=authored(then.set_ctx),
        set_vars=authored(then.set_vars),
        set_shared=authored(then.set_shared),
        # A written null is a value here, unlike elsewhere: it is what `_prev` becomes.
        set_prev=written(then.set_prev) if then.set_prev is not None else None,
    )
    return writes if writes != Mutations() else None
