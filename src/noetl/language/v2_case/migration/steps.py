"""Steps of v2-case as v10: one pipeline, one router, and further steps where a rule works and then leads on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from noetl.base.template_names import expression, paths, template
from noetl.language.migrating import fragments
from noetl.language.migrating.document_editor import item_id, origin_of
from noetl.language.migrating.fragments import Copier, Entry, FragmentEntry, Item, ListFragment, Literal, Mapped
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, scalars
from noetl.language.reading.playbook import ArcSyntax, CaseExit, Playbook, RetrySyntax, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import DONE, ERROR, EXIT, Guard
from noetl.language.v2_case.migration.pipeline import CasePipeline, guard_of_rule
from noetl.language.v2_case.migration.retry import is_pages
from noetl.language.v2_case.migration.routes import Choice, targets_of, transition_options
from noetl.language.v2_case.migration.rules import RuleParts, template_texts
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
            # Then the result of this step is the result of the execution (O-08).
            last = bare and _leads_to_end(step.node)
            read = readers[step.name] > 0 or last
            items += self._step(
                step, names, meets=step.name in meeting, read_elsewhere=read, forks=step.name in several
            )
        return [*items, *self._implicit_end()]

    def _step(
        self, step: StepSyntax, names: TaskNames, *, meets: bool, read_elsewhere: bool, forks: bool
    ) -> list[Item]:
        """With every rule in the place that v10 has for it; else as a pipeline that does what the rules did."""
        # Notes and names of an attempt count only where that attempt is taken.
        notes, taken = Notes(), TaskNames({*names.taken})
        items = CaseStep(step, self.copier, notes, taken, read_elsewhere=read_elsewhere, forks=forks).items()
        # The pipeline that jumps is harder to read: only where the plain form needs a person, and this one does not.
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
        return Mapped(tuple(fragments.task_entries(self.copier, task, None)))

    def _implicit_end(self) -> list[Item]:
        """The place that a target `end` meant when no step had that name (C-40)."""
        if any(step.name == "end" for step in self.playbook.steps):
            return []
        ended = any(_leads_to_end(step.node) for step in self.playbook.steps)
        return [Item(Mapped((FragmentEntry("step", Literal("end")),)))] if ended else []


def _with_other_tokens(steps: Sequence[StepSyntax]) -> set[str]:
    """The steps that can run while the execution has other tokens: the targets of a fork, and all steps after them."""
    following = {step.name: set(_targets(step, steps)) for step in steps}
    return _reachable_steps([name for step in steps if _forks(step) for name in following[step.name]], following)


def _with_two_tokens(steps: Sequence[StepSyntax]) -> set[str]:
    """The steps that two tokens of one fork can reach, so that both may be there at once."""
    following = {step.name: set(_targets(step, steps)) for step in steps}
    met: Counter[str] = Counter()
    for together in (names for step in steps for names in _sent_together(step, steps)):
        met |= Counter(reached for name in together for reached in _reachable_steps([name], following))
    return {name for name, count in met.items() if count > 1}


def _reachable_steps(waiting: list[str], following: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following.get(name, ())
    return found


def _exits_of(step: StepSyntax) -> list[tuple[ArcSyntax, ...]]:
    actions = [action for rule in (step.case.rules if step.case else ()) for action in rule.actions]
    taken = [action.targets for action in actions if isinstance(action, CaseExit)]
    return [*taken, step.router.arcs] if step.router is not None else taken


def _targets(step: StepSyntax, steps: Sequence[StepSyntax]) -> Iterator[str]:
    for way in _exits_of(step):
        yield from _target_names(way, steps)


def _target_names(way: tuple[ArcSyntax, ...], steps: Sequence[StepSyntax]) -> Iterator[str]:
    for arc in way:
        yield from (other.name for other in steps) if arc.template else (str(arc.target.value),)


def _sent_together(step: StepSyntax, steps: Sequence[StepSyntax]) -> list[list[str]]:
    """The targets that tokens of one run of a step can go to at once. The iterations of a loop can take several ways,
    each once (V2C-23)."""
    ways = [list(_target_names(way, steps)) for way in _exits_of(step)]
    if step.loop is None:
        return ways
    decided = ways if step.router is None else ways[:-1]
    return [[name for way in decided for name in way], *ways]


def _forks(step: StepSyntax) -> bool:
    """Whether a step can send several tokens on."""
    ways = _exits_of(step)
    decided = ways if step.router is None else ways[:-1]
    return (step.loop is not None and len(decided) > 1) or any(len(targets) > 1 for targets in ways)


def _leads_to_end(step: Mapping) -> bool:
    """Whether anything in a step leads there: by name, or as one of the names a template can give."""
    ways = [value for key, _, value in step.items() if key in ("next", "case", "timeout")]
    values = [scalar.value for way in ways for scalar in scalars(way) if isinstance(scalar.value, str)]
    return any(value == "end" or "'end'" in value or '"end"' in value for value in values)


def _roots(node: Node) -> set[str]:
    return {path[0] for scalar in scalars(node) if isinstance(scalar.value, str) for path in paths(scalar.value)}


# A v2-case step whose rules have no simpler place in v10: its keys around the pipeline that they become.

# Names of v2-case without an equivalent in such a pipeline.
_OWN = ("response", "this", "event", "page", "_retry")


class PipelineStep(CaseStep):
    """`obstacle` is asked first; None means that it can be written. `meets`: two tokens can be at this step at once.
    `forks`: other tokens can be there while it runs."""

    def __init__(self, *args: Any, meets: bool, forks: bool, **more: Any) -> None:
        super().__init__(*args, forks=forks, **more)
        self.meets, self.forks = meets, forks

    def obstacle(self) -> str | None:
        step = self.step
        if step.case is None or self.looks.view != step.name:
            return "there is no case"
        if step.options.eval_mode == "on_event" or step.set_ctx is not None or step.blocks.on_event is not None:
            return "it listens"
        blocks = step.blocks
        if any(waits is not None for waits in (blocks.timer, blocks.message, blocks.signal, blocks.human_task)):
            return "it waits"
        if self.call is None and step.vars is not None:
            return "it has vars and no call"
        if self.call is None and self.forks and not all(parts.tasks for parts in self.sorting.rules.all):
            return "it may run no task and then has no result, but the result of several ends needs one of each"
        if not all(_is_plain_retry(retry) for retry in step.retry):
            return "its retries repeat a success"
        rules = self.sorting.rules.all
        return next((found for parts in rules if (found := self._rule_obstacle(parts)) is not None), None)

    def _rule_obstacle(self, parts: RuleParts) -> str | None:
        guard, rule = parts.guard, parts.rule
        if guard is None or rule.retry or rule.strict or rule.cache or parts.is_after_loop:
            return "a rule retries, is strict or is asked after the loop"
        if not guard.only(DONE, ERROR, EXIT) and guard.events is not None:
            return "a rule asks for another event"
        if self.call is None and rule.when is not None and not guard.only(EXIT):
            return "a rule asks how a call went, and the step makes none"
        exits = [action for action in rule.actions if isinstance(action, CaseExit)]
        if len(exits) > 1 or (exits and rule.actions[-1] is not exits[0]):
            return "something follows a transition"
        if exits and self.step.loop is not None and (self.meets or not _is_static(exits[0])):
            return "a rule decides per iteration, by what only the iteration knows"
        if any(_has_policy(task) for task in parts.tasks):
            return "a task has a policy"
        return self._unreadable(parts, guard)

    def _unreadable(self, parts: RuleParts, guard: Guard) -> str | None:
        """A name that the rule reads, and that the pipeline or the arcs cannot."""
        is_else = parts.rule.when is None
        known = CasePipeline(self.step, self.call, self.call_name, (), self.copier).names(guard, is_else=is_else)
        asked = [template(part) for part in guard.rest]
        leads = [arc.args for arc in parts.transition.targets] if parts.transition is not None else []
        inside = [*asked, *template_texts(self._work(parts))]
        for path in (path for text in inside for path in paths(text)):
            covered = path[0] in known or ".".join(path[:2]) in known
            if path[0] in _OWN and not covered:
                return f'a rule reads "{path[0]}"'
            if self.call is not None and path[0] == self.step.name and not self._is_known(path, guard, is_else):
                return f'a rule reads "{path[0]}.{path[1]}"'
        tasks = {task.name for one in self.sorting.rules.all for task in one.tasks}
        if guard.only(ERROR) and not is_else:
            own = {*_OWN, "result"} - {"response"}
        else:
            own = {"event", "page", "_retry"} if guard.only(DONE) and not is_else else {*_OWN, "result", "error"}
        for path in (path for text in template_texts(leads) for path in paths(text)):
            if path[0] in own or path[0] in tasks:
                return f'the args of a transition read "{path[0]}"'
        return None

    def _is_known(self, path: tuple[str, ...], guard: Guard, is_else: bool) -> bool:
        """Whether what is read of the step itself is known, though it may be that of a failure."""
        if is_else or guard.only(DONE) or guard.only(EXIT) or len(path) < 2:
            return True
        return path[1] not in ("status", "_outcome") and (path[1] != "error" or guard.only(ERROR))

    def _work(self, parts: RuleParts) -> list[Node | None]:
        tasks: list[Node | None] = [task.node for task in parts.tasks]
        return [*tasks, *(task.inputs.get("args") for task in parts.tasks), *(one.values for one in parts.sets)]

    # the parts of the step ---------------------------------------------------------------------------------------

    def _placed(self) -> list[Choice]:
        self.pipeline = CasePipeline(self.step, self.call, self.call_name, self.sorting.rules.all, self.copier)
        self.notes.changed(self.step, "the rules of this step are written as one pipeline that jumps")
        leading = [parts for parts in self.pipeline.all_rules if parts.transition is not None]
        for parts in leading if self.step.loop is not None else ():
            flag = self.pipeline.flag_of(parts)
            self.notes.changed(parts.rule, f"ctx.{flag} tells the arcs that this rule led on in some iteration")
        ways = [self._way(parts) for parts in leading]
        return [*ways, *self._shortcut()]

    def _way(self, parts: RuleParts) -> Choice:
        transition, guard = parts.transition, guard_of_rule(parts)
        assert transition is not None
        number = self.pipeline.way_of(parts)
        when = f"{self.looks.view}._outcome.results.{self.pipeline.labels.way}.rule == {number}"
        copier = self.copier.with_names(self.looks.arc_names(guard))
        targets = targets_of(transition.targets, transition_options(transition, copier), copier, self.notes)
        # The arc resets the flag for a later visit of the step.
        if self.step.loop is not None:
            flag = self.pipeline.flag_of(parts)
            when = f"event.name == 'loop.done' and ctx.{flag}"
            down = (FragmentEntry(flag, Literal("null")),)
            targets = tuple(msgspec.structs.replace(target, writes=down) for target in targets)
        return Choice(when, Guard(frozenset({f"way {number}"}), ()), targets, copier)

    def _tool(self, choices: list[Choice]) -> list[Entry]:
        origin = origin_of(self.node, "tool")
        return [FragmentEntry("tool", ListFragment(tuple(self.pipeline.items(self.notes))), origin)]

    def _takes_several(self) -> bool:
        """Iterations can take several ways, each once (V2C-23)."""
        return self.step.loop is not None and sum(parts.transition is not None for parts in self.sorting.rules.all) > 1

    def _set_ctx(self) -> list[Entry]:
        return super()._set_ctx() if self.step.loop is not None else []


def _is_plain_retry(retry: RetrySyntax) -> bool:
    """Whether it only repeats errors, and fails with the last one."""
    if is_pages(retry) or retry.on_exhausted not in (None, "fail"):
        return False
    if retry.when is None:
        return True
    inner = expression(str(retry.when.value))
    return inner is not None and any(path[0] == "error" for path in paths(template(inner)))


def _has_policy(task: TaskSyntax) -> bool:
    spec = task.node.get("spec") if isinstance(task.node, Mapping) else None
    return isinstance(spec, Mapping) and "policy" in spec


def _is_static(transition: CaseExit) -> bool:
    """Whether it leads to the same place, with the same args, from every iteration."""
    nodes = [arc.args for arc in transition.targets] + [arc.spec for arc in transition.targets]
    read = {path[0] for text in template_texts([*nodes, transition.delay]) for path in paths(text)}
    return not any(arc.template for arc in transition.targets) and read <= {"workload", "execution_id", "args"}
