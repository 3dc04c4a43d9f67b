"""The workbook: reusable tasks by name, in any spelling (DOC-09, design.md §5). References are not followed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.language.grammar.root import WORKBOOK_TASK
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import TaskSyntax
from noetl.language.reading.shared_checks import ReadContext, check_keys, opening, text

_SHAPE = "workbook: {tasks: {name: {kind: …}}}"


def read_workbook(
    reading: ReadContext, node: Node | None, read_task: Callable[[ReadContext, Node, Scalar | None], TaskSyntax | None]
) -> dict[str, TaskSyntax]:
    """Each task under its name."""
    tasks: dict[str, TaskSyntax] = {}
    for name, body in _entries(reading, node):
        task = read_task(reading, body, name)
        if str(name.value) in tasks:
            message = f'the workbook has two tasks "{name.value}"'
            reading.error("E_TASK_DUP", name, message, "give each task a name of its own")
        elif task is not None:
            tasks[str(name.value)] = task
    return tasks


def _entries(reading: ReadContext, node: Node | None) -> Iterator[tuple[Scalar, Node]]:
    match node:
        case Mapping():
            for _, key, value in _tasks_of(node).items():
                yield key, _task_of(reading, value)
        case Sequence():
            for item in node:
                yield from _listed(reading, item)
        case Scalar() if node.value is not None:
            message = f"workbook must be a mapping or a list of tasks, and this is {describe(node)}"
            reading.error("E_ROOT_KEY", node, message, _SHAPE)


def _tasks_of(node: Mapping) -> Mapping:
    """The inner mapping of `{tasks: {…}}`; a lone task that is itself called tasks has a kind."""
    inner = node.get("tasks")
    if len(node) == 1 and isinstance(inner, Mapping) and not isinstance(inner.get("kind"), Scalar):
        return inner
    return node


def _listed(reading: ReadContext, item: Node) -> Iterator[tuple[Scalar, Node]]:
    """`{name, kind, …}` or `{name, tool: {…}}`."""
    if not isinstance(item, Mapping):
        reading.error("E_ROOT_KEY", item, f"a workbook task must be a mapping, and this is {describe(item)}", _SHAPE)
    elif "name" not in item:
        reading.error("E_TASK_KEY", opening(item), "a workbook task in a list needs a name", "- {name: …, kind: …}")
    else:
        name = text(reading, item.values["name"], "E_TASK_KEY", "name")
        if name is not None:
            yield name, _task_of(reading, item)


def _task_of(reading: ReadContext, entry: Node) -> Node:
    """The task itself: the entry, or the one `tool` it holds."""
    if not isinstance(entry, Mapping) or "kind" in entry or "tool" not in entry:
        return entry
    check_keys(reading, entry, WORKBOOK_TASK, "E_TASK_KEY")
    return entry.values["tool"]
