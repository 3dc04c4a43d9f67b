"""The constructs of a document in any dialect, for the detection of its dialect (DIA-02).

Looks only at places where the language puts its own keys. Task inputs, `workload` and `args` may hold any key, so they
say nothing about the dialect; nor do the roadmap blocks (DIA-03).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner

SUGAR = ("choose", "while", "until")


class DocumentParts(msgspec.Struct, frozen=True):
    """The parts of one document in which markers are looked for."""

    root: Mapping
    steps: tuple[Mapping, ...]
    # Items of tool lists, including those inside choose, while and until.
    pipeline: tuple[Mapping, ...]
    # Mappings with a task's own keys: list items, values below a label, single tools.
    tasks: tuple[Mapping, ...]


def document_parts(root: Mapping) -> DocumentParts:
    """The parts of the document at `root`, in its order."""
    steps = tuple(mappings(root.get("workflow")))
    pipeline = tuple(item for step in steps for item in _pipeline(step.get("tool")))
    single = [step.get("tool") for step in steps]
    tasks = [_inside_label(item) for item in pipeline]
    tasks += [tool for tool in single if isinstance(tool, Mapping)]
    tasks += [tool for step in steps for tool in _case_tools(step)]
    tasks += _workbook_tasks(root.get("workbook"))
    return DocumentParts(root, steps, pipeline, tuple(tasks))


def mappings(node: Node | None) -> Iterator[Mapping]:
    """The mappings among the items of a list; nothing for anything else."""
    if isinstance(node, Sequence):
        yield from (item for item in node.items if isinstance(item, Mapping))


def key(node: Node | None, *path: str) -> Iterator[Scalar]:
    """The node of the last key of `path` below `node`, if it is there."""
    *above, last = path
    for name in above:
        node = node.get(name) if isinstance(node, Mapping) else None
    if isinstance(node, Mapping) and last in node:
        yield node.keys[last]


def label(item: Mapping) -> Scalar | None:
    """The label of `{label: {…}}`, a task as v2-eval writes it."""
    if len(item) != 1 or sugar(item) is not None:
        return None
    ((_, name, value),) = item.items()
    return name if isinstance(value, Mapping) else None


def sugar(item: Mapping) -> Scalar | None:
    """The key of a choose, while or until; a label of a task may be one of these words, too."""
    for word in SUGAR:
        value = item.get(word)
        if value is not None and not (isinstance(value, Mapping) and "kind" in value):
            return item.keys[word]
    return None


def loops(step: Mapping) -> Iterator[Mapping]:
    """The loop of a step and the loops inside it (LOOP-07)."""
    loop = step.get("loop")
    while isinstance(loop, Mapping):
        yield loop
        loop = loop.get("loop")


def exits(step: Mapping) -> Iterator[Mapping]:
    """The parts of `next` that can have a condition: the router, its arcs, or the entries of a list."""
    router = step.get("next")
    if isinstance(router, Mapping):
        yield router
        yield from mappings(router.get("arcs"))
    yield from mappings(router)


def rules(task: Mapping) -> Iterator[Mapping]:
    """The mappings in which a task's rules hold their actions: eval entries, `then` of a policy, and their else."""
    for entry in mappings(task.get("eval")):
        yield entry
        yield from _mapping(entry.get("else"))
    for rule in mappings(inner(task, "spec", "policy", "rules")):
        for branch in (rule, *_mapping(rule.get("else"))):
            yield from _mapping(branch.get("then"))


def _pipeline(tool: Node | None) -> Iterator[Mapping]:
    for item in mappings(tool):
        yield item
        if sugar(item) is not None:
            for word in SUGAR:
                yield from _bodies(item.get(word))


def _bodies(construct: Node | None) -> Iterator[Mapping]:
    """The tasks inside the branches of a sugar construct."""
    branches = list(mappings(construct)) if isinstance(construct, Sequence) else list(_mapping(construct))
    for branch in branches:
        for holder in (branch, *_mapping(branch.get("else"))):
            yield from _pipeline(holder.get("then"))


def _inside_label(item: Mapping) -> Mapping:
    name = label(item)
    inside = item.get(str(name.value)) if name is not None else None
    return inside if isinstance(inside, Mapping) else item


def _case_tools(step: Mapping) -> Iterator[Mapping]:
    """The tools of named tasks in `then` lists of case rules (V2C-10)."""
    for rule in mappings(step.get("case")):
        for entry in mappings(rule.get("then")):
            for _, _, value in entry.items():
                yield from _mapping(value.get("tool") if isinstance(value, Mapping) else None)


def _workbook_tasks(workbook: Node | None) -> Iterator[Mapping]:
    """Tasks of a workbook in any of its three forms (DOC-09), those under a `tool` of their own included."""
    entries = list(mappings(workbook))
    if isinstance(workbook, Mapping):
        named = workbook.get("tasks") if isinstance(workbook.get("tasks"), Mapping) else workbook
        if isinstance(named, Mapping):
            entries += [value for _, _, value in named.items() if isinstance(value, Mapping)]
    for entry in entries:
        tool = entry.get("tool")
        yield tool if isinstance(tool, Mapping) and "kind" not in entry else entry


def _mapping(node: Node | None) -> Iterator[Mapping]:
    if isinstance(node, Mapping):
        yield node
