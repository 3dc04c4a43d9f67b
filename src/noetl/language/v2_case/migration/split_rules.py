"""Steps of their own: what a rule did before it led on, between the old step and its target (MIG-03).

Such a step reads what the rule saw by the old step's name, or by args that the arc to it hands over.
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.language.migrating.document_editor import item_id
from noetl.language.migrating.eval_vars import prefix
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, ListFragment, Mapped, literal
from noetl.language.migrating.names import paths, template
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import scalars
from noetl.language.reading.playbook import ArcSyntax
from noetl.language.v2_case.migration.guards import DONE, ERROR, EXIT, Guard, joined
from noetl.language.v2_case.migration.routes import (
    ArcTarget,
    Choice,
    RouterPieces,
    guard_of,
    targets_of,
    transition_options,
)
from noetl.language.v2_case.migration.rules import Looks, RuleParts, then_part
from noetl.language.v2_case.migration.tasks import TaskNames, failing_task, keeping_task, rule_tasks, setting_task

_LABELS = {DONE: "done", ERROR: "error", EXIT: "exit"}


class Apart:
    """Builds such steps for one v2-case step. `forks`: other tokens can be there while it runs."""

    def __init__(self, looks: Looks, copier: Copier, notes: Notes, names: TaskNames, *, forks: bool) -> None:
        self.looks, self.copier, self.notes, self.names, self.forks = looks, copier, notes, names, forks

    def step(self, parts: RuleParts, guard: Guard, on_failure: Sequence[Choice]) -> tuple[Item, ArcTarget]:
        """The new step, and the way to it. Its own failures go where those of the old step's calls went (V2C-11)."""
        label = _LABELS.get(next(iter(guard.events), ""), "case") if guard.events is not None else "case"
        name = self.names.free(f"{self.looks.step.name}_{label}")
        copier, handed = self._copied_rule(parts, guard)
        entries = [FragmentEntry("step", literal(name))]
        tasks = rule_tasks(copier, self.looks.step, parts.rule, parts.tasks, TaskNames(set()))
        written = {key: copier.renamed_entry(one.values, key, key) for one in parts.sets for key in one.values.values}
        if parts.transition is None:  # a step's own set_ctx is for its success
            values = Mapped(tuple(written.values()))
            tasks += [setting_task("set_vars", values)] if written else []
            tasks.append(failing_task("fail_again", "args.error"))
        if parts.transition is not None and not guard.waits and _leads_to_end(parts.transition.targets):
            tasks.append(keeping_task(f"{prefix(name)}_result", self.looks.view))  # the execution's result (O-08)
            self._check_ends(parts)
        if tasks:
            entries.append(FragmentEntry("tool", ListFragment(tuple(tasks))))
        if written and parts.transition is not None:
            entries.append(FragmentEntry("set_ctx", Mapped(tuple(written.values()), flow=len(written) == 1)))
        onward = [*self._onward(parts, copier), *on_failure]
        router = RouterPieces(self.looks.step, always=False).entry(onward)
        entries += [router] if router is not None else []
        self.notes.changed(parts.rule, f'this rule is now a step of its own, "{name}"')
        return Item(Mapped(tuple(entries)), item_id(parts.rule.node)), ArcTarget(name, extra=tuple(handed))

    def _check_ends(self, parts: RuleParts) -> None:
        """Where several tokens end, the execution's result is told by the names of their last steps."""
        if self.forks or (parts.transition is not None and len(parts.transition.targets) > 1):
            message = "this rule would be a step of its own, and the results of several ends are told by their steps"
            self.notes.differs(parts.rule, message, "let the step lead on first, and do this in a step after it")

    def _onward(self, parts: RuleParts, copier: Copier) -> list[Choice]:
        transition = parts.transition
        if transition is None:
            return []
        narrowed = guard_of(transition, copier)
        when = joined(["event.name == 'step.done'", narrowed]) if narrowed is not None else None
        targets = targets_of(transition.targets, transition_options(transition, copier), copier, self.notes)
        self._check_args(parts, targets)
        return [Choice(when, Guard(frozenset({DONE}), ()), targets, copier)]

    def _check_args(self, parts: RuleParts, targets: tuple[ArcTarget, ...]) -> None:
        """Arcs see no results of tasks, only those of steps."""
        names = {task.name for task in parts.tasks if task.name}
        for target in targets:
            texts = [str(scalar.value) for scalar in scalars(target.args)] if target.args is not None else []
            for path in (path for text in texts for path in paths(text) if path[0] in names):
                message = f'the args of this transition read the task "{path[0]}", and arcs only see steps'
                self.notes.blocked(parts.rule, message, "keep the value with set_ctx, and read it from ctx")

    def _copied_rule(self, parts: RuleParts, guard: Guard) -> tuple[Copier, list[FragmentEntry]]:
        view = self.looks.view
        read = {path for scalar in scalars(then_part(parts.rule)) for path in paths(str(scalar.value))}
        roots = {path[0] for path in read}
        handed = {path[1]: f"args.{path[1]}" for path in read if path[0] == "args" and len(path) > 1}
        names = {"result": f"{view}.data", "response": f"{view}.result", "this": view}
        if guard.waits:
            names = {"result": "args.result", "event.data": "args.data", "response": "args.data"}
            if "result" in roots:
                handed["result"] = "event.result"
            if "response" in roots or any(path[:2] == ("event", "data") for path in read):
                handed["data"] = "event.data"
        elif guard.only(ERROR):
            names |= {"response.status_code": "args.error.status", "response.error": "args.error"}
            names["error"] = "args.error"
            if roots & {"response", "error"} or parts.transition is None:
                handed["error"] = "event.error"
        entries = [FragmentEntry(key, literal(template(value))) for key, value in sorted(handed.items())]
        return self.copier.with_names(names), entries


def _leads_to_end(targets: Sequence[ArcSyntax]) -> bool:
    return any("end" in str(arc.target.value) for arc in targets)
