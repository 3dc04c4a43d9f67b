"""Retries of v2-case as rules of the call's policy (MIG-03, V2C-16…19).

v10 counts the runs of a task and waits by doubling, by adding, or not at all; any other growth becomes a template.
"""

from __future__ import annotations

from noetl.base.durations import seconds
from noetl.base.source import is_template
from noetl.base.template_names import expression, paths, template
from noetl.language.migrating.eval_rules import FAIL_ON_ERROR
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, ListFragment, Literal, Mapped, literal
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, data
from noetl.language.reading.playbook import RetrySyntax, StepSyntax
from noetl.language.v2_case.migration.guards import ERROR, EXIT, read_guard, rename_expression
from noetl.language.v2_case.migration.tasks import own_names

_NAMES = {
    "response": "outcome.result",
    "result": "outcome.result",  # whose own data is read for what it lacks (TPL-07)
    "error": "outcome.error",
    "status_code": "outcome.http.status",
    "this": "outcome",
    "_retry.index": "_attempt",
    "_retry.count": "_attempt",
    "vars": "ctx",
}
_OWN_KEYS = ("data", "result", "status", "error")
_ON_ERROR, _ON_SUCCESS = "outcome.status == 'error'", "outcome.status == 'success'"


class CallPolicy:
    """The policy of a step's call. `exhausted` is what is written where the pipeline goes on after the last attempt."""

    def __init__(self, step: StepSyntax, copier: Copier, notes: Notes, exhausted: FragmentEntry | None = None) -> None:
        self.step = step
        own = {f"{name}.{key}": f"outcome.{key}" for name in own_names(step, "") for key in _OWN_KEYS}
        self._names = {**_NAMES, **own_names(step, "outcome.data"), **own}
        self.copier = copier.with_names(self._names)
        self.notes = notes
        self._exhausted = exhausted

    def retries(self) -> list[Item]:
        return [item for retry in self.step.retry if not is_pages(retry) for item in self._rules(retry)]

    def entry(self, writes: Mapped | None = None) -> FragmentEntry | None:
        """`writes` is what a finished call sets, for pagination."""
        items = self.retries()
        if not items and writes is None:
            return None
        items.append(FAIL_ON_ERROR)
        if writes is not None:
            then = FragmentEntry(
                "then", Mapped((FragmentEntry("do", Literal("continue")), FragmentEntry("set_iter", writes)))
            )
            items.append(Item(Mapped((FragmentEntry("else", Mapped((then,))),))))
        self._check_counts()
        self._check_exhausted()
        return FragmentEntry("policy", Mapped((FragmentEntry("rules", ListFragment(tuple(items))),)))

    def _check_counts(self) -> None:
        plain = [retry for retry in self.step.retry if not is_pages(retry)]
        if len(plain) > 1:
            message = "each of these retry policies counted its own calls; v10 counts the runs of the task once for all"
            self.notes.changed(plain[1], message)

    def _check_exhausted(self) -> None:
        """A used up retry that goes on is still an error to the rules, and no failure to an arc (V2C-18)."""
        guards = [read_guard(rule.when) for rule in self.step.case.rules] if self.step.case is not None else []
        heard = any(guard is None or guard.events is None or guard.events & {ERROR, EXIT} for guard in guards)
        for retry in self.step.retry if heard else ():
            if retry.on_exhausted == "continue":
                message = "on_exhausted: continue with rules that saw the error; v10 goes on as after a success"
                hint = "leave on_exhausted out, and let an arc guarded by step.failed take the error"
                self.notes.blocked(retry, message, hint)

    def _rules(self, retry: RetrySyntax) -> list[Item]:
        """One rule; two when the condition says neither whether it is about errors nor about responses."""
        inner = expression(str(retry.when.value)) if retry.when is not None else None
        if retry.when is None:
            return [self._rule(retry, _ON_ERROR, on_exhausted=retry.on_exhausted)]
        if inner is None:
            inner = "true"
            if retry.when.value is not True:
                self.notes.blocked(retry.when, "this condition is more than one expression", "write it as one {{ … }}")
        roots = {path[0] for path in paths(template(inner))}
        renamed = rename_expression(inner, self.copier.names)
        if "error" in roots:
            return [self._rule(retry, renamed, on_exhausted=retry.on_exhausted)]
        if roots & {"response", "result"}:
            return [self._rule(retry, renamed, on_exhausted=retry.on_exhausted or "continue")]
        return [
            self._rule(retry, f"{_ON_ERROR} and ({renamed})", on_exhausted=retry.on_exhausted),
            self._rule(retry, f"{_ON_SUCCESS} and ({renamed})", on_exhausted=retry.on_exhausted or "continue"),
        ]

    def _rule(self, retry: RetrySyntax, when: str, *, on_exhausted: str | None) -> Item:
        then = [FragmentEntry("do", Literal("retry"))]
        node = retry.node
        if retry.max_attempts is not None and isinstance(node, Mapping):
            then.append(FragmentEntry("attempts", self.copier.value(retry.max_attempts, node.keys["max_attempts"])))
        then += self._delays(retry)
        if retry.max_delay is not None:
            then.append(FragmentEntry("max_delay", self.copier.value(retry.max_delay)))
        if retry.jitter is not None:
            then.append(FragmentEntry("jitter", self.copier.value(retry.jitter)))
        if self._exhausted is not None:
            then += [FragmentEntry("on_exhausted", Literal("continue")), self._exhausted]
        elif on_exhausted is not None and on_exhausted != "fail":
            then.append(FragmentEntry("on_exhausted", Literal(on_exhausted)))
        return Item(
            Mapped(
                (FragmentEntry("when", literal(template(when))), FragmentEntry("then", Mapped(tuple(then), flow=True)))
            )
        )

    def _delays(self, retry: RetrySyntax) -> list[FragmentEntry]:
        if retry.initial_delay is None:
            return []
        factor = _factor(retry)
        if retry.mode == "linear":
            return [FragmentEntry("backoff", Literal("linear")), self._delay(retry.initial_delay)]
        if factor == 2:
            return [FragmentEntry("backoff", Literal("exponential")), self._delay(retry.initial_delay)]
        if factor == 1:
            return [self._delay(retry.initial_delay)]
        return [
            FragmentEntry(
                "delay", literal(template(f"{self._number(retry.initial_delay)} * {factor} ** (_attempt - 1)"))
            )
        ]

    def _delay(self, node: Node) -> FragmentEntry:
        return FragmentEntry("delay", self.copier.value(node))

    def _number(self, node: Node) -> str:
        """The first delay as part of an expression."""
        value = data(node)
        if isinstance(value, str) and is_template(value):
            return f"({rename_expression(expression(value) or '0', self._names)})"
        length = seconds(value)
        return str(int(length) if length.is_integer() else length)


def is_pages(retry: RetrySyntax) -> bool:
    """Whether this policy repeats the call with other inputs, or keeps what it returned."""
    return retry.next_call is not None or retry.collect is not None or retry.sink is not None


def _factor(retry: RetrySyntax) -> object:
    """By what the delay grows with each run: a number, or an expression."""
    if retry.mode == "fixed":
        return 1
    value = data(retry.multiplier) if isinstance(retry.multiplier, Scalar) else None
    if value is None:
        return 2 if retry.mode == "exponential" else 1
    return f"({expression(value)})" if isinstance(value, str) else value
