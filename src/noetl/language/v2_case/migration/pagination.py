"""Pagination by `retry` as a v10 pipeline: a first task, the call, its sink, and a task that jumps back (V2C-17, O-28).

The inputs that `next_call` changes and the list that `collect` fills live in `iter`; what was collected is the step's
result in the end.
"""

from __future__ import annotations

from noetl.base.template_names import expression, template
from noetl.language.migrating.document_editor import key_id
from noetl.language.migrating.fragments import (
    Copier,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    Piece,
    literal,
    task_entries,
)
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node
from noetl.language.reading.playbook import CollectSyntax, RetrySyntax, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import joined, rename_expression
from noetl.language.v2_case.migration.retry import CallPolicy, is_pages
from noetl.language.v2_case.migration.tasks import call_name, own_names, plain_task, sink_name

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
        self.leaves = dict(_leaves(self.retry.next_call)) if self.retry.next_call is not None else {}

    def items(self) -> list[Item]:
        items = [self._first(), self._call()]
        if self.retry.sink is not None:
            names = {"page": f"{self.name}.result", "_retry.index": f"iter.{CALLS}", "_retry.count": f"iter.{CALLS}"}
            copier = self.copier.with_names({**self._names(), **names})
            items.append(Item(plain_task(copier, self.retry.sink, sink_name(self.step, self.retry))))
        items.append(self._more())
        if self.retry.collect is not None:
            items.append(self._collected(self.retry.collect))
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
        """What the first call starts from, kept in `iter` so that the next one can change it."""
        values: list[FragmentEntry] = [FragmentEntry(CALLS, Literal("0"))]
        for path in self.leaves:
            original = _at(self.call.inputs, path)
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
        then = FragmentEntry("then", Mapped((FragmentEntry("set_iter", Mapped(tuple(values), flow=True)),)))
        return _noop(f"{self.name}_first", [Item(Mapped((FragmentEntry("else", Mapped((then,))),)))])

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

    def _more(self) -> Item:
        condition = "true"
        if self.retry.when is not None:
            condition = rename_expression(expression(str(self.retry.when.value)) or "false", self._names())
        if self.retry.max_attempts is not None:
            bound = self.copier.old.source.cut(self.retry.max_attempts.span).strip("\"'")
            condition = joined([f"iter.{CALLS} < {expression(bound) or bound}", condition])
        then: list[FragmentEntry] = [FragmentEntry("do", Literal("jump")), FragmentEntry("to", literal(self.name))]
        copier = self.copier.with_names(self._names())
        if self.leaves:
            values = tuple(FragmentEntry(path[-1], copier.value(node)) for path, node in self.leaves.items())
            then.append(FragmentEntry("set_iter", Mapped(values, flow=True)))
        again = Item(
            Mapped((FragmentEntry("when", literal(template(condition))), FragmentEntry("then", Mapped(tuple(then)))))
        )
        done = FragmentEntry("then", Mapped((FragmentEntry("do", Literal("continue")),), flow=True))
        return _noop(f"{self.name}_more", [again, Item(Mapped((FragmentEntry("else", Mapped((done,))),)))])

    def _collected(self, collect: CollectSyntax) -> Item:
        message = f"the step's result is now {{{collect.into}: …}}, without the last response's other fields"
        self.notes.changed(collect, message)
        values = Mapped((FragmentEntry(collect.into, literal(template(f"iter.{collect.into}"))),), flow=True)
        entries = (
            FragmentEntry("name", literal(f"{self.name}_collected")),
            FragmentEntry("kind", Literal("noop")),
            FragmentEntry("args", values),
        )
        return Item(Mapped(entries, flow=True))


_EMPTY = {"replace": "null", "merge": "{}"}


def _collecting(collect: CollectSyntax) -> str:
    value = f"outcome.result.{collect.path_text}"
    match collect.strategy:
        case "push":
            return f"iter.{collect.into} + [{value}]"
        case "replace":
            return value
        case "merge":
            return f"dict(iter.{collect.into}, **{value})"
        case _:
            return f"iter.{collect.into} + ({value} | default([]))"


def _noop(name: str, rules: list[Item]) -> Item:
    policy = Mapped((FragmentEntry("policy", Mapped((FragmentEntry("rules", ListFragment(tuple(rules))),))),))
    return Item(
        Mapped(
            (
                FragmentEntry("name", literal(name)),
                FragmentEntry("kind", Literal("noop")),
                FragmentEntry("spec", policy),
            )
        )
    )


def _leaves(node: Mapping, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Node]]:
    """Every value of next_call with the way to it."""
    found: list[tuple[tuple[str, ...], Node]] = []
    for key, _, value in node.items():
        found += _leaves(value, (*path, key)) if isinstance(value, Mapping) else [((*path, key), value)]
    return found


def _at(inputs: dict[str, Node], path: tuple[str, ...]) -> Node | None:
    node: Node | None = inputs.get(path[0])
    for key in path[1:]:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
