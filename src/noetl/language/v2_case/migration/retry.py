"""Retries of v2-case as v10: rules of the call's policy, or a pipeline for pagination (MIG-03).

Rules (V2C-16…19): v10 counts the runs of a task and waits by doubling, by adding, or not at all; any other growth
becomes a template.

Pagination (V2C-17, O-28) becomes a first task, the call, its sink, and a task that jumps back. The inputs that
`next_call` changes and the list that `collect` fills live in `iter`; the collected values are the step's result in the
end.
"""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.base.durations import seconds
from noetl.base.template_names import expression, paths, template
from noetl.language.migrating.document_editor import key_id
from noetl.language.migrating.eval_rules import CONTINUE, FAIL_ON_ERROR
from noetl.language.migrating.fragments import (
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    Piece,
    literal,
    mapped,
    task_entries,
)
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, data
from noetl.language.reading.playbook import CollectSyntax, RetrySyntax, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import ERROR, EXIT, joined, read_guard, rename_expression
from noetl.language.v2_case.migration.tasks import call_name, keeping_task, noop_task, own_names, plain_task, sink_name

_NAMES = {
    "response": "outcome.result",
    # Attributes missing on a result are looked up in its `data` (TPL-07).
    "result": "outcome.result",
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
        # Said, since a policy lets errors pass that none of its rules takes.
        items.append(FAIL_ON_ERROR)
        if writes is not None:
            then = mapped({"do": Literal("continue"), "set_iter": writes})
            items.append(Item(mapped({"else": mapped({"then": then})})))
        self._check_counts()
        self._check_exhausted()
        return FragmentEntry("policy", mapped({"rules": ListFragment(tuple(items))}))

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
        return Item(mapped({"when": literal(template(when)), "then": Mapped(tuple(then), flow=True)}))

    def _delays(self, retry: RetrySyntax) -> list[FragmentEntry]:
        if retry.initial_delay is None:
            return []
        factor = _factor(retry)
        if retry.mode == "linear":
            return [FragmentEntry("backoff", Literal("linear")), self._delay(retry.initial_delay)]
        # v10 has words for doubling and for adding the first delay; any other growth is written out as an expression.
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


CALLS = "calls"


class Pages:
    """The pipeline of one step whose call is repeated with other inputs."""

    def __init__(self, step: StepSyntax, call: TaskSyntax, copier: Copier, notes: Notes) -> None:
        self.step, self.call, self.copier, self.notes = step, call, copier, notes
        self.name = call_name(step)
        repeating = [retry for retry in step.retry if is_pages(retry)]
        self.retry: RetrySyntax = repeating[0]
        if len(repeating) > 1:
            hint = "split the step: one v10 pipeline per kind of repetition"
            notes.blocked(repeating[1], "a second policy repeats the call in another way", hint)
        if self.retry.initial_delay is not None:
            message = "v10 jumps back for the next page at once, without this delay"
            notes.blocked(
                self.retry.initial_delay, message, "retry the call with do: retry, or wait in a step of its own"
            )
        self.leaves = dict(_leaf_values(self.retry.next_call)) if self.retry.next_call is not None else {}

    def items(self) -> list[Item]:
        items = [self._first(), self._call()]
        if self.retry.sink is not None:
            names = {"page": f"{self.name}.result", "_retry.index": f"iter.{CALLS}", "_retry.count": f"iter.{CALLS}"}
            copier = self.copier.with_names({**self._names(), **names})
            items.append(Item(plain_task(copier, self.retry.sink, sink_name(self.step, self.retry))))
        items.append(self._next_page_task())
        if self.retry.collect is not None:
            items.append(self._collected(self.retry.collect))
        elif self.retry.sink is not None:
            # Without it, what the sink stored last would be the result of the step.
            items.append(keeping_task(f"{self.name}_result", self.name))
        return items

    def result_names(self, view: str) -> dict[str, str]:
        """How the step's own templates read what was collected."""
        collect = self.retry.collect
        if collect is None:
            return {}
        return {collect.into: f"{view}.data.{collect.into}", f"result.{collect.into}": f"{view}.data.{collect.into}"}

    def _names(self) -> dict[str, str]:
        own = own_names(self.step, self.name)
        return {"response": f"{self.name}.result", "result": f"{self.name}.data", "this": self.name, **own}

    def _first(self) -> Item:
        """The inputs of the first call, kept in `iter` so that the next one can change them."""
        values: list[FragmentEntry] = [FragmentEntry(CALLS, Literal("0"))]
        for path in self.leaves:
            original = _at(self.call.inputs, path)
            # The first call would send nothing there, and `iter` cannot start from what is not written.
            if original is None:
                message = f"next_call sets {'.'.join(path)}, which the first call does not have"
                self.notes.blocked(
                    self.leaves[path], message, f"write {'.'.join(path)} in the tool, for the first call"
                )
                continue
            values.append(FragmentEntry(path[-1], self.copier.value(original)))
        if self.retry.collect is not None:
            values.append(
                FragmentEntry(self.retry.collect.into, Literal(_EMPTY.get(self.retry.collect.strategy, "[]")))
            )
        then = mapped({"set_iter": Mapped(tuple(values), flow=True)})
        return noop_task(f"{self.name}_first", [Item(mapped({"else": mapped({"then": then})}))])

    def _call(self) -> Item:
        writes = [FragmentEntry(CALLS, literal(template(f"iter.{CALLS} + 1")))]
        if self.retry.collect is not None:
            writes.append(FragmentEntry(self.retry.collect.into, literal(template(_collecting(self.retry.collect)))))
        policy = CallPolicy(self.step, self.copier, self.notes).entry(Mapped(tuple(writes)))
        changed = {path[0] for path in self.leaves}
        node = self.call.node
        assert isinstance(node, Mapping)
        replaced = {
            key: FragmentEntry(key, self._input(value, (key,)), key_id(node.keys[key]))
            for key, value in self.call.inputs.items()
            if key in changed
        }
        name = FragmentEntry("name", literal(self.name))
        return Item(Mapped(tuple(task_entries(self.copier, self.call, name, [policy] if policy else [], replaced))))

    def _input(self, node: Node, path: tuple[str, ...]) -> Piece:
        if path in self.leaves:
            return literal(template(f"iter.{path[-1]}"))
        if isinstance(node, Mapping):
            values = tuple(FragmentEntry(key, self._input(value, (*path, key))) for key, _, value in node.items())
            return Mapped(values, flow=True)
        return self.copier.value(node)

    def _next_page_task(self) -> Item:
        condition = "true"
        if self.retry.when is not None:
            condition = rename_expression(expression(str(self.retry.when.value)) or "false", self._names())
        if self.retry.max_attempts is not None:
            # As it is written: it may be a template, and becomes a part of another expression.
            bound = self.copier.old.source.cut(self.retry.max_attempts.span).strip("\"'")
            condition = joined([f"iter.{CALLS} < {expression(bound) or bound}", condition])
        then: list[FragmentEntry] = [FragmentEntry("do", Literal("jump")), FragmentEntry("to", literal(self.name))]
        copier = self.copier.with_names(self._names())
        if self.leaves:
            values = tuple(FragmentEntry(path[-1], copier.value(node)) for path, node in self.leaves.items())
            then.append(FragmentEntry("set_iter", Mapped(values, flow=True)))
        again = Item(mapped({"when": literal(template(condition)), "then": Mapped(tuple(then))}))
        return noop_task(f"{self.name}_more", [again, CONTINUE])

    def _collected(self, collect: CollectSyntax) -> Item:
        message = f"the step's result is the last response's body with {collect.into}, without its status and headers"
        self.notes.changed(collect, message)
        body = f"{self.name}.data if {self.name}.data is mapping else {{}}"
        values = literal(template(f"dict({body}, {collect.into}=iter.{collect.into})"))
        return Item(
            mapped({"name": literal(f"{self.name}_collected"), "kind": Literal("noop"), "args": values}, flow=True)
        )


_EMPTY = {"replace": "null", "merge": "{}"}


def _collecting(collect: CollectSyntax) -> str:
    value = f"outcome.result.{collect.path_text}"
    match collect.strategy:
        case "push":
            return f"iter.{collect.into} + [{value}]"
        case "replace":
            return value
        case "merge":
            return f"dict(iter.{collect.into}, {value} if {value} is mapping else {{}})"
        case _:
            if collect.path_text == "data":
                value = f"({value}.data | default({value}))"
            listed = f"{value} is sequence and {value} is not string and {value} is not mapping"
            return f"iter.{collect.into} + ({value} if {listed} else [{value}] if {value} is defined else [])"


def _leaf_values(node: Mapping, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Node]]:
    """Every value of next_call with the way to it."""
    found: list[tuple[tuple[str, ...], Node]] = []
    for key, _, value in node.items():
        found += _leaf_values(value, (*path, key)) if isinstance(value, Mapping) else [((*path, key), value)]
    return found


def _at(inputs: dict[str, Node], path: tuple[str, ...]) -> Node | None:
    node: Node | None = inputs.get(path[0])
    for key in path[1:]:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
