"""Choose, while and until become ordinary tasks, noops and jumps (SUGAR-01…05, O-35).

Each branch ends in a jump to a generated merge point, so that none falls through into the next. Labels depend only
on the construct's name and on positions inside it. A jump to a construct's own name goes to where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noetl.language.compiling.control_flow_parts import ControlFlowParts
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import Pipeline, rewrite
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook, PolicySyntax, RuleSyntax, Sugar, TaskSyntax


def expand_sugar(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every pipeline as plain tasks."""
    return rewrite(playbook, _expanded)


def _expanded(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
    if all(isinstance(item, TaskSyntax) for item in pipeline.items):
        return pipeline.items
    begins: dict[str, str] = {}
    flat = tuple(_flat(pipeline.items, begins))
    return tuple(_redirected(task, begins) for task in flat)


def _flat(items: tuple[TaskSyntax | Sugar, ...], begins: dict[str, str]) -> Iterator[TaskSyntax]:
    for item in items:
        if isinstance(item, TaskSyntax):
            yield item
            continue
        expansion = tuple(_EXPANSIONS[item.construct](item, ControlFlowParts(item), begins))
        begins[item.name or ""] = expansion[0].name or ""
        yield from expansion


def _choose(sugar: Sugar, parts: ControlFlowParts, begins: dict[str, str]) -> Iterator[TaskSyntax]:
    ways = [parts.jump(parts.branch(index), branch.when) for index, branch in enumerate(sugar.branches)]
    if all(branch.when is not None for branch in sugar.branches):
        ways.append(parts.jump(parts.merge))
    yield parts.noop(parts.check, *ways)
    for index, branch in enumerate(sugar.branches):
        yield parts.noop(parts.branch(index))
        body = tuple(_flat(branch.body, begins))
        yield from body
        if not leaves(body):
            yield parts.noop(parts.end(index), parts.jump(parts.merge))
    yield parts.noop(parts.merge)


def _while(sugar: Sugar, parts: ControlFlowParts, begins: dict[str, str]) -> Iterator[TaskSyntax]:
    branch = sugar.branches[0]
    if sugar.max_rounds is not None:
        yield parts.noop(parts.start, parts.begin_counting(sugar.max_rounds))
    yield parts.noop(parts.check, parts.go_on(branch.when), parts.jump(parts.merge))
    if sugar.max_rounds is not None:
        yield parts.noop(parts.count, parts.out_of_rounds(), parts.count_round())
    body = tuple(_flat(branch.body, begins))
    yield from body
    if not leaves(body):
        yield parts.noop(parts.end(0), parts.jump(parts.check))
    yield parts.noop(parts.merge)


def _until(sugar: Sugar, parts: ControlFlowParts, begins: dict[str, str]) -> Iterator[TaskSyntax]:
    branch = sugar.branches[0]
    again = parts.branch(0)
    if sugar.max_rounds is not None:
        again = parts.count
        yield parts.noop(parts.start, parts.begin_counting(sugar.max_rounds))
        yield parts.noop(parts.count, parts.out_of_rounds(), parts.count_round())
    else:
        yield parts.noop(parts.branch(0))
    yield from _flat(branch.body, begins)
    yield parts.noop(parts.check, parts.jump(parts.merge, branch.when), parts.jump(again))
    yield parts.noop(parts.merge)


_EXPANSIONS = {"choose": _choose, "while": _while, "until": _until}


def leaves(body: tuple[TaskSyntax, ...]) -> bool:
    """Whether control never passes from the end of `body` to what follows it: its last task always goes elsewhere."""
    policy = body[-1].policy if body else None
    if policy is None or not any(rule.when is None for rule in policy.rules):
        return False
    return all(rule.then.do != "continue" and rule.then.on_exhausted != "continue" for rule in policy.rules)


def _redirected(task: TaskSyntax, begins: dict[str, str]) -> TaskSyntax:
    """A jump to a construct's name leads to the task it begins with."""
    if task.policy is None or not any(_target(rule) in begins for rule in task.policy.rules):
        return task
    return replace(task, policy=_redirected_policy(task.policy, begins))


def _redirected_policy(policy: PolicySyntax, begins: dict[str, str]) -> PolicySyntax:
    return replace(policy, rules=tuple(_redirected_rule(rule, begins) for rule in policy.rules))


def _redirected_rule(rule: RuleSyntax, begins: dict[str, str]) -> RuleSyntax:
    to, label = rule.then.to, begins.get(_target(rule))
    if label is None or to is None:
        return rule
    return replace(rule, then=replace(rule.then, to=Scalar(label, to.span, to.path)))


def _target(rule: RuleSyntax) -> str:
    return str(rule.then.to.value) if rule.then.to is not None else ""
