"""Parts of expanded sugar: labels, noops, jumps and round counters, all placed where the construct stands."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import PolicySyntax, RuleSyntax, Sugar, TaskSyntax, Then


class ControlFlowParts:
    """Makes the tasks that one construct is made of; every one of them points back at the construct (SUGAR-06)."""

    def __init__(self, sugar: Sugar) -> None:
        self._sugar = sugar
        self._name = sugar.name or sugar.construct

    # labels ----------------------------------------------------------------------------------------------------------

    @property
    def start(self) -> str:
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
