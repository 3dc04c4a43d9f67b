"""Rewrites task lists into plain tasks: control flow and references to the workbook.

Choose, while and until become ordinary tasks, noops and jumps (SUGAR-01…05, O-35). Each branch ends in a jump to a
generated merge point, so that none falls through into the next. Labels depend only on the construct's name and on
positions inside it. A jump to a construct's own name goes to where it begins.

A task of kind workbook becomes the task it names (TOOL-10, O-07). The definition is taken with the reference's keys
laid over it; the reference's `args` become what the definition reads as `args`. The task keeps the referencing name, so
events show the real kind under the author's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Table

from msgspec.structs import replace

from noetl.base.diagnostics import is_template
from noetl.base.template_names import expression
from noetl.language.compiling.passes import Compilation, Pipeline, head, rewrite, rewrite_tasks
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.text_positions import parsed
from noetl.language.reading.nodes import Mapping, Node, Scalar, data, scalars
from noetl.language.reading.playbook import Playbook, PolicySyntax, RuleSyntax, StepSyntax, Sugar, TaskSyntax, Then
from noetl.language.reading.shared_checks import did_you_mean
from noetl.net.kinds import ToolKind


def expand_sugar(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every pipeline as plain tasks."""
    return rewrite(playbook, _expanded_tasks)


def _expanded_tasks(pipeline: Pipeline) -> tuple[TaskSyntax | Sugar, ...]:
    if all(isinstance(item, TaskSyntax) for item in pipeline.items):
        return pipeline.items
    # By the name of a construct, its first generated task: filled while expanding, and used for all jumps afterwards,
    # since a jump may precede its target.
    begins: dict[str, str] = {}
    flat = tuple(_flat(pipeline.items, begins))
    return tuple(_with_redirected_jumps(task, begins) for task in flat)


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
        # A jump behind a task that never goes on would be an unreachable task.
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
    """Whether control never passes from the end of `body` to the next task, because the last task always jumps."""
    policy = body[-1].policy if body else None
    if policy is None or not any(rule.when is None for rule in policy.rules):
        return False
    return all(rule.then.do != "continue" and rule.then.on_exhausted != "continue" for rule in policy.rules)


def _with_redirected_jumps(task: TaskSyntax, begins: dict[str, str]) -> TaskSyntax:
    """A jump to a construct's name leads to the task it begins with."""
    if task.policy is None or not any(_target(rule) in begins for rule in task.policy.rules):
        return task
    rules = tuple(_redirected_rule(rule, begins) for rule in task.policy.rules)
    return replace(task, policy=replace(task.policy, rules=rules))


def _redirected_rule(rule: RuleSyntax, begins: dict[str, str]) -> RuleSyntax:
    to, label = rule.then.to, begins.get(_target(rule))
    if label is None or to is None:
        return rule
    return replace(rule, then=replace(rule.then, to=Scalar(label, to.span, to.path)))


def _target(rule: RuleSyntax) -> str:
    return str(rule.then.to.value) if rule.then.to is not None else ""


class ControlFlowParts:
    """Makes the tasks of one construct; each of them refers to the construct as its origin (SUGAR-06)."""

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


KIND = "workbook"


def resolve_workbook(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every reference replaced by its definition; E_WORKBOOK_REF for unknown names and circles."""
    references = _References(playbook.workbook, compilation)

    def resolved(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        defines = pipeline.in_workbook and not pipeline.is_hook
        # A definition begins a trail with its own name: one that refers to itself is a circle of one.
        trail = (task.name or "",) if defines else ()
        # Few tasks are references, and the arcs to a step are found by going through all steps.
        handed = _step_args(pipeline.step, playbook) if task.kind == KIND and pipeline.step is not None else {}
        return references.resolve(task, trail, handed)

    return rewrite_tasks(playbook, resolved)


class _References:
    """Resolves references against one workbook; a circle is noted once, wherever it is entered."""

    def __init__(self, book: Table[str, TaskSyntax], compilation: Compilation) -> None:
        self._book, self._compilation = book, compilation
        self._circles: set[frozenset[str]] = set()

    def resolve(self, task: TaskSyntax, trail: tuple[str, ...], handed: Handed | None = None) -> TaskSyntax:
        """The definition that `task` refers to; `handed` are the args of the step around it."""
        name = _definition_name(task, self._book, self._compilation) if task.kind == KIND else None
        if name is None:
            return task
        if name in trail:
            self._note_circle(task, trail[trail.index(name) :])
            return task
        definition = self.resolve(self._book[name], (*trail, name))
        # The definition itself could not be resolved, which is reported there; the reference stays as it is.
        if definition.kind == KIND:
            return task
        return _merged_definition(definition, task, self._compilation.kinds.get(definition.kind), handed or {})

    def _note_circle(self, task: TaskSyntax, circle: tuple[str, ...]) -> None:
        if frozenset(circle) in self._circles:
            return
        self._circles.add(frozenset(circle))
        names = " → ".join(f'"{each}"' for each in (*circle, circle[0]))
        place = task.inputs.get("task") or head(task)
        message = f"workbook references go in a circle: {names}"
        self._compilation.note("E_WORKBOOK_REF", place, message, "let one of them be a tool call")


def _definition_name(task: TaskSyntax, book: Table[str, TaskSyntax], compilation: Compilation) -> str | None:
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


def _merged_definition(
    definition: TaskSyntax, reference: TaskSyntax, kind: ToolKind | None, handed: Handed
) -> TaskSyntax:
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
        bound = (_given_first(bound[0], _always_given(args)), *bound[1:])
    elif isinstance(args, Mapping) and isinstance(defaults := kept.get("args"), Mapping):
        kept["args"] = _given_first(defaults, _always_given(args))
    # A reference without args passes on what its step has.
    elif args is None and isinstance(defaults := kept.get("args"), Mapping):
        kept["args"] = _given_first(defaults, handed)
    return replace(
        definition,
        node=reference.node,
        name=reference.name,
        name_node=reference.name_node,
        inputs={**kept, **own},
        spec=_overlay(definition.spec, reference.spec),
        # Not merged: rules are tried in order, and no author wrote the order of a merged list.
        policy=reference.policy or definition.policy,
        bound=((args,) if isinstance(args, Mapping) else ()) + bound,
    )


# The arguments of a caller, by key: their place, and whether they are always given.
Handed = Table[str, tuple[Scalar, bool]]


def _always_given(args: Mapping) -> Handed:
    return {key: (place, True) for key, place in args.keys.items()}


def _step_args(step: StepSyntax, playbook: Playbook) -> Handed:
    """The args that a step has: its own, and those that only some of the arcs to it may bring."""
    arcs = [arc for other in playbook.steps for arc in arcs_of(other) if arc.target.value == step.name]
    brought = {key: (place, False) for arc in arcs if arc.args for key, place in arc.args.keys.items()}
    return {**brought, **(_always_given(step.args) if step.args is not None else {})}


def _given_first(defaults: Mapping, given: Handed) -> Mapping:
    """The args of a definition, which are defaults, overridden by the args of its caller. An arg that itself reads
    `args` is no default: it converts what the caller gave."""
    values = dict(defaults.values)
    for key, (place, is_certain) in given.items():
        otherwise = _expression(values[key]) if key in values and not is_certain else ""
        # A text with a template in it is no single expression, and stays as it is.
        if key in values and otherwise is not None and not _reads_args(values[key]):
            read = f"args[{key!r}]" if is_certain else f"args[{key!r}] | default({otherwise})"
            values[key] = Scalar(f"{{{{ {read} }}}}", place.span, place.path, made=True)
    return replace(defaults, values=values)


def _expression(node: Node) -> str | None:
    """The value as an expression of a template; None where it has none."""
    texts = [str(scalar.value) for scalar in scalars(node)]
    if isinstance(node, Scalar) and is_template(texts[0]):
        return expression(texts[0])
    return None if any("{" in text or "}" in text for text in texts) else _literal(data(node))


def _literal(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_literal(key)}: {_literal(held)}" for key, held in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
        case None | bool():
            return str(value).lower()
        case _:
            return repr(value)


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
