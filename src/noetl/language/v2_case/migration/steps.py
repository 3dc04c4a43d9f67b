"""Steps of v2-case as v10: one pipeline, one router, and further steps where a rule works and then leads on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from noetl.language.migrating.document_editor import item_id
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, Literal, Mapped
from noetl.language.migrating.names import paths
from noetl.language.migrating.notes import Notes
from noetl.language.migrating.tasks import task_entries
from noetl.language.reading.nodes import Mapping, Node, scalars
from noetl.language.reading.playbook import ArcSyntax, CaseExit, Playbook, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.pipeline_step import PipelineStep
from noetl.language.v2_case.migration.step import CaseStep
from noetl.language.v2_case.migration.tasks import TaskNames


class CaseSteps:
    """`v10`: where steps begin that are v10 already and are copied, in a document of several dialects."""

    def __init__(self, playbook: Playbook, copier: Copier, notes: Notes, v10: Collection[int] = ()) -> None:
        self.playbook = playbook
        self.copier = copier
        self.notes = notes
        self._v10 = v10

    def items(self) -> list[Item]:
        names = TaskNames({step.name for step in self.playbook.steps})
        readers = Counter(root for step in self.playbook.steps for root in _roots(step.node) - {step.name})
        bare = not any(step.name == "end" and step.tasks for step in self.playbook.steps)
        several, meeting = _with_other_tokens(self.playbook.steps), _with_two_tokens(self.playbook.steps)
        items: list[Item] = []
        for step in self.playbook.steps:
            if step.node.span.start in self._v10:
                items.append(Item(self.copier.value(step.node), item_id(step.node)))
                continue
            last = bare and _leads_to_end(step.node)  # then its result is the execution's (O-08)
            read = readers[step.name] > 0 or last
            items += self._step(
                step, names, meets=step.name in meeting, read_elsewhere=read, forks=step.name in several
            )
        return [*items, *self._implicit_end()]

    def _step(
        self, step: StepSyntax, names: TaskNames, *, meets: bool, read_elsewhere: bool, forks: bool
    ) -> list[Item]:
        """With every rule in the place that v10 has for it; else as a pipeline that does what the rules did."""
        notes, taken = Notes(), TaskNames({*names.taken})
        items = CaseStep(step, self.copier, notes, taken, read_elsewhere=read_elsewhere, forks=forks).items()
        if not notes.is_whole:
            others, unused = Notes(), TaskNames({*names.taken})
            jumping = PipelineStep(
                step, self.copier, others, unused, meets=meets, read_elsewhere=read_elsewhere, forks=forks
            )
            written = jumping.items() if jumping.obstacle() is None else None
            if written is not None and others.is_whole:
                items, notes, taken = written, others, unused
        self.notes.include(notes)
        names.taken |= taken.taken
        return items

    def task(self, task: TaskSyntax) -> Mapped:
        """A task of the workbook."""
        return Mapped(tuple(task_entries(self.copier, task, None)))

    def _implicit_end(self) -> list[Item]:
        """The place that a target `end` meant when no step had that name (C-40)."""
        if any(step.name == "end" for step in self.playbook.steps):
            return []
        ended = any(_leads_to_end(step.node) for step in self.playbook.steps)
        return [Item(Mapped((FragmentEntry("step", Literal("end")),)))] if ended else []


def _with_other_tokens(steps: Sequence[StepSyntax]) -> set[str]:
    """The steps that can run while the execution has other tokens: what a fork leads to, and all that follows."""
    following = {step.name: set(_targets(step, steps)) for step in steps}
    return _reached([name for step in steps if _forks(step) for name in following[step.name]], following)


def _with_two_tokens(steps: Sequence[StepSyntax]) -> set[str]:
    """The steps that two tokens of one fork can reach, so that both may be there at once."""
    following = {step.name: set(_targets(step, steps)) for step in steps}
    met: Counter[str] = Counter()
    for together in (names for step in steps for names in _sent_together(step, steps)):
        met |= Counter(reached for name in together for reached in _reached([name], following))
    return {name for name, count in met.items() if count > 1}


def _reached(waiting: list[str], following: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following.get(name, ())
    return found


def _ways(step: StepSyntax) -> list[tuple[ArcSyntax, ...]]:
    actions = [action for rule in (step.case.rules if step.case else ()) for action in rule.actions]
    taken = [action.targets for action in actions if isinstance(action, CaseExit)]
    return [*taken, step.router.arcs] if step.router is not None else taken


def _targets(step: StepSyntax, steps: Sequence[StepSyntax]) -> Iterator[str]:
    for way in _ways(step):
        yield from _named(way, steps)


def _named(way: tuple[ArcSyntax, ...], steps: Sequence[StepSyntax]) -> Iterator[str]:
    for arc in way:
        yield from (other.name for other in steps) if arc.template else (str(arc.target.value),)


def _sent_together(step: StepSyntax, steps: Sequence[StepSyntax]) -> list[list[str]]:
    """The targets that tokens of one run of a step can go to at once. The iterations of a loop can take several ways,
    each once (V2C-23)."""
    ways = [list(_named(way, steps)) for way in _ways(step)]
    if step.loop is None:
        return ways
    decided = ways if step.router is None else ways[:-1]
    return [[name for way in decided for name in way], *ways]


def _forks(step: StepSyntax) -> bool:
    """Whether a step can send several tokens on."""
    ways = _ways(step)
    decided = ways if step.router is None else ways[:-1]
    return (step.loop is not None and len(decided) > 1) or any(len(targets) > 1 for targets in ways)


def _leads_to_end(step: Mapping) -> bool:
    """Whether anything in a step leads there: by name, or as one of the names a template can give."""
    ways = [value for key, _, value in step.items() if key in ("next", "case", "timeout")]
    values = [scalar.value for way in ways for scalar in scalars(way) if isinstance(scalar.value, str)]
    return any(value == "end" or "'end'" in value or '"end"' in value for value in values)


def _roots(node: Node) -> set[str]:
    return {path[0] for scalar in scalars(node) if isinstance(scalar.value, str) for path in paths(scalar.value)}
