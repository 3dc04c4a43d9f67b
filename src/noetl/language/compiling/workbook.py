"""Workbook references: a task of kind workbook becomes the task it names (TOOL-10, O-07).

The definition is taken with the reference's keys laid over it; the reference's `args` become what the definition
reads as `args`. The task keeps the referencing name, so events show the real kind under the author's name.
"""

from __future__ import annotations

from collections.abc import Mapping as Table

from msgspec.structs import replace

from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation, head
from noetl.language.compiling.pipelines import Pipeline, rewrite_tasks
from noetl.language.compiling.text_positions import parsed
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import did_you_mean
from noetl.net.kinds import ToolKind

KIND = "workbook"


def resolve_workbook(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every reference replaced by its definition; E_WORKBOOK_REF for unknown names and circles."""
    references = _References(playbook.workbook, compilation)

    def resolved(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        defines = pipeline.in_workbook and not pipeline.is_hook
        return references.resolve(task, (task.name or "",) if defines else ())

    return rewrite_tasks(playbook, resolved)


class _References:
    """Resolves references against one workbook; a circle is noted once, wherever it is entered."""

    def __init__(self, book: Table[str, TaskSyntax], compilation: Compilation) -> None:
        self._book, self._compilation = book, compilation
        self._circles: set[frozenset[str]] = set()

    def resolve(self, task: TaskSyntax, trail: tuple[str, ...]) -> TaskSyntax:
        name = _named(task, self._book, self._compilation) if task.kind == KIND else None
        if name is None:
            return task
        if name in trail:
            self._note_circle(task, trail[trail.index(name) :])
            return task
        definition = self.resolve(self._book[name], (*trail, name))
        if definition.kind == KIND:
            return task
        return _laid_over(definition, task, self._compilation.kinds.get(definition.kind))

    def _note_circle(self, task: TaskSyntax, circle: tuple[str, ...]) -> None:
        if frozenset(circle) in self._circles:
            return
        self._circles.add(frozenset(circle))
        names = " → ".join(f'"{each}"' for each in (*circle, circle[0]))
        place = task.inputs.get("task") or head(task)
        message = f"workbook references go in a circle: {names}"
        self._compilation.note("E_WORKBOOK_REF", place, message, "let one of them be a tool call")


def _named(task: TaskSyntax, book: Table[str, TaskSyntax], compilation: Compilation) -> str | None:
    """The definition a reference names: `task`, or its own `name` where `task` is absent (design.md §5)."""
    node = task.inputs.get("task") or task.inputs.get("name") or task.name_node
    known = f"the workbook has {', '.join(book)}" if book else "this playbook has no workbook"
    if node is None:
        compilation.note("E_WORKBOOK_REF", head(task), "this reference does not say which workbook task it is", known)
    elif not isinstance(node, Scalar) or not isinstance(node.value, str):
        compilation.note("E_WORKBOOK_REF", node, "task must be the name of a workbook task", known)
    elif is_template(node.value):
        hint = "references are resolved before anything runs; write the name"
        compilation.note("E_WORKBOOK_REF", node, "the name of a workbook task cannot be a template", hint)
    elif node.value not in book:
        message = f'"{node.value}" is not a task of the workbook'
        compilation.note("E_WORKBOOK_REF", node, message, did_you_mean(node.value, book, known) if book else known)
    else:
        return node.value
    return None


def _laid_over(definition: TaskSyntax, reference: TaskSyntax, kind: ToolKind | None) -> TaskSyntax:
    args = reference.inputs.get("args")
    binds = isinstance(args, Mapping)
    own = {
        key: node
        for key, node in reference.inputs.items()
        if key not in ("task", "name") and not (key == "args" and binds)
    }
    kept = {key: node for key, node in definition.inputs.items() if not _same_input(key, own, kind)}
    bound = definition.bound
    if isinstance(args, Mapping) and bound:
        bound = (_given_first(bound[0], args), *bound[1:])
    elif isinstance(args, Mapping) and isinstance(defaults := kept.get("args"), Mapping):
        kept["args"] = _given_first(defaults, args)
    return replace(
        definition,
        node=reference.node,
        name=reference.name,
        name_node=reference.name_node,
        inputs={**kept, **own},
        spec=_overlay(definition.spec, reference.spec),
        policy=reference.policy or definition.policy,
        bound=((args,) if isinstance(args, Mapping) else ()) + bound,
    )


def _given_first(defaults: Mapping, given: Mapping) -> Mapping:
    """A definition's own args, which are defaults, with those of its caller in place of them. One that reads `args`
    itself is no default: it says what becomes of what the caller gave."""
    values = dict(defaults.values)
    for key, place in given.keys.items():
        if key in values and not _reads_args(values[key]):
            values[key] = Scalar(f"{{{{ args['{key}'] }}}}", place.span, place.path, made=True)
    return replace(defaults, values=values)


def _reads_args(node: Node) -> bool:
    texts = (str(scalar.value) for scalar in scalars(node) if is_template(str(scalar.value)))
    templates = (parsed(text) for text in texts)
    return any(read.root == "args" for template in templates if template for read in template.references)


def _same_input(key: str, others: Table[str, Node], kind: ToolKind | None) -> bool:
    """Whether one of `others` is this input, perhaps under another of its names."""
    known = kind.input(key) if kind else None
    names = (known.name, *known.aliases) if known else (key,)
    return any(name in others for name in names)


def _overlay(outer: Mapping | None, inner: Mapping | None) -> Mapping | None:
    """Maps merge deep, anything else is replaced, as everywhere in `spec` (SPEC-02)."""
    if outer is None or inner is None:
        return inner or outer
    values: dict[str, Node] = dict(outer.values)
    for key, value in inner.values.items():
        below = values.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and key != "policy":
            values[key] = _overlay(below, value) or value
        else:
            values[key] = value
    return Mapping({**outer.keys, **inner.keys}, values, inner.span, inner.path)
