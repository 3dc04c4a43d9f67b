"""Choose, while and until become ordinary tasks, noops and jumps (SUGAR-01…05, O-35).

Each branch ends in a jump to a generated merge point, so that none falls through into the next. Labels depend only
on the construct's name and on positions inside it. A jump to a construct's own name goes to where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import Pipeline, rewrite
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import Playbook, PolicySyntax, RuleSyntax, Sugar, TaskSyntax, Then


def expand_sugar(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every pipeline as plain tasks."""
    return rewrite(playbook, _expanded)


def _expanded(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
    if all(isinstance(item, TaskSyntax) for item in pipeline.items):
        return pipeline.items
    # By the name of a construct, its first generated task: filled while expanding, and used for all jumps afterwards,
    # since a jump may stand before its target.
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
    # Without an else, a token that matches no branch goes past all of them.
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
    # Where each further round begins: at the body, or at the count before it.
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


class ControlFlowParts:
    """Makes the tasks that one construct is made of; every one of them points back at the construct (SUGAR-06)."""

    def __init__(self, sugar: Sugar) -> None:
        self._sugar = sugar
        self._name = sugar.name or sugar.construct

    # labels ----------------------------------------------------------------------------------------------------------

    @property
    def start(self) -> str:
        # Two underscores: names of authors may hold them too, but then `check_task_names` reports the clash.
        return f"{self._name}__start"

    @property
    def check(self) -> str:
        return f"{self._name}__check"

    @property
    def count(self) -> str:
        return f"{self._name}__count"

    @property
    def merge(self) -> str:
        return f"{self._name}__merge"

    def branch(self, index: int) -> str:
        return f"{self._name}__b{index}"

    def end(self, index: int) -> str:
        return f"{self._name}__b{index}_end"

    # tasks and rules -------------------------------------------------------------------------------------------------

    def noop(self, name: str, *rules: RuleSyntax) -> TaskSyntax:
        policy = PolicySyntax(node=self._sugar.node, rules=rules) if rules else None
        construct = self._sugar.construct
        return TaskSyntax(node=self._sugar.node, name=name, kind="noop", inputs={}, policy=policy, generated=construct)

    def jump(self, label: str, when: Scalar | None = None) -> RuleSyntax:
        return self._rule(when, Then(node=self._place(when), do="jump", to=self._text(label)))

    def go_on(self, when: Scalar | None) -> RuleSyntax:
        return self._rule(when, Then(node=self._place(when)))

    def begin_counting(self, limit: Node) -> RuleSyntax:
        """No round yet, and the bound, which may be a template: rendered once, on entry."""
        values = {self._rounds: Scalar(0, limit.span, limit.path), self._limit: limit}
        return self._rule(None, Then(node=limit, set_iter=self._mapping(values, limit)))

    def out_of_rounds(self) -> RuleSyntax:
        """A loop that needs more rounds than its author allowed has failed, as an exhausted retry has (O-35)."""
        when = self._text(f"{{{{ iter.{self._rounds} >= iter.{self._limit} }}}}")
        return self._rule(when, Then(node=self._sugar.node, do="fail"))

    def count_round(self) -> RuleSyntax:
        counted = self._text(f"{{{{ iter.{self._rounds} + 1 }}}}")
        return self._rule(
            None, Then(node=self._sugar.node, set_iter=self._mapping({self._rounds: counted}, self._sugar.node))
        )

    # ---------------------------------------------------------------------------------------------------------------

    @property
    def _rounds(self) -> str:
        return f"{self._name}__rounds"

    @property
    def _limit(self) -> str:
        return f"{self._name}__limit"

    def _rule(self, when: Scalar | None, then: Then) -> RuleSyntax:
        return RuleSyntax(node=self._place(when), when=when, then=then)

    def _place(self, when: Scalar | None) -> Node:
        return when if when is not None else self._sugar.node

    def _text(self, text: str) -> Scalar:
        return Scalar(text, self._sugar.span, self._sugar.path, plain=False)

    def _mapping(self, values: dict[str, Node], place: Node) -> Mapping:
        keys = {key: Scalar(key, place.span, place.path) for key in values}
        return Mapping(keys, values, place.span, place.path)
