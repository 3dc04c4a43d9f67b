"""Each case rule of one step to its place in v10, in the rules' own order (V2C-06…12).

The results of the rules are collected here: tasks before and after the call, exits, and separate steps. A rule only
runs if no earlier rule matched its event; if that matters, the other's condition is excluded explicitly.
"""

from __future__ import annotations

import msgspec

from noetl.base.template_names import paths, template
from noetl.language.migrating.document_editor import item_id
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, Mapped
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping
from noetl.language.v2_case.migration.guards import (
    DONE,
    ENTER,
    ERROR,
    EXIT,
    Guard,
    event_condition,
    joined,
    reads,
    rename_expression,
)
from noetl.language.v2_case.migration.routes import Apart, Choice, guard_of, targets_of, transition_options
from noetl.language.v2_case.migration.rules import Looks, RuleParts, StepRules, after_success, template_texts, then_part
from noetl.language.v2_case.migration.tasks import (
    TaskNames,
    choosing_task,
    pipeline_names,
    rule_tasks,
    setting_task,
)


class CaseSorting:
    def __init__(
        self, looks: Looks, copier: Copier, notes: Notes, step_names: TaskNames, task_names: TaskNames, *, forks: bool
    ) -> None:
        self.looks, self.copier, self.notes, self.task_names = looks, copier, notes, task_names
        self.apart = Apart(looks, copier, notes, step_names, forks=forks)
        self.rules = StepRules(looks, notes)
        self.before: list[Item] = []
        self.done: list[Item] = []
        self.exit: list[Item] = []
        self.set_ctx: list[Mapping] = []
        self.choices: list[Choice] = []
        self.extras: list[Item] = []
        # Rules that become steps of their own.
        self._left: list[RuleParts] = []

    def sort(self) -> None:
        """Rules on step.exit are looked at after those on the call's own events, and else after all (O-29)."""
        early: list[Choice] = []
        late: list[Choice] = []
        for position, parts in enumerate(self.rules.all):
            if parts.guard is None:
                continue
            self.choices = []
            self._place(parts, parts.guard, position)
            # Rules on step.exit, and else, come after those on the call: so do their arcs.
            last = parts.rule.when is None or parts.guard.only(EXIT)
            (late if last else early).extend(self.choices)
        self.choices = [*early, *late]

    def _place(self, parts: RuleParts, guard: Guard, position: int) -> None:
        taken = self.rules.taken_before(guard, position)
        self.rules.check_order(parts, guard)
        self.rules.check_turns(parts, guard, taken)
        if self.looks.looped and parts.is_after_loop:
            self._after_loop(parts, guard, taken)
        elif parts.rule.when is None:
            self._otherwise(parts, guard, position)
        elif guard.only(ENTER) and self.looks.step.tasks:
            self._ahead(parts, guard, taken)
        elif not parts.works or self._sets_on_the_way(parts):
            self._lead(parts, guard, taken)
        elif self._is_certain(parts, guard, taken):
            self._follow(parts, guard)
        elif not self.looks.looped and (parts.transition is not None or guard.only(ERROR)):
            self._leave(parts, guard, self._condition(parts, guard, taken))
        elif parts.transition is None and guard.after_success:
            self._choose(parts, guard, taken)
        elif guard.waits:
            hint = "write them as an on_event handler, or lead to a step that runs them"
            self.notes.blocked(parts.rule, "tasks on an event that lead nowhere", hint)
        elif parts.transition is None and guard.only(ERROR):
            hint = "let the call's policy jump to them (do: jump), and the last of them end with do: fail"
            self.notes.blocked(parts.rule, "tasks for an iteration whose call has failed, which leave it failed", hint)
        else:
            message = "this rule decides per iteration where the step leads, and a v10 router decides once"
            self.notes.blocked(parts.rule, message, "collect what decides with set_ctx, and guard next.arcs with it")

    def _sets_on_the_way(self, parts: RuleParts) -> bool:
        """Whether the arc itself can set the values of the rule: nothing else happens between the rule and the exit."""
        step, transition = self.looks.step, parts.transition
        if transition is None or not parts.sets or parts.tasks or transition.guard is not None:
            return False
        computed = any(arc.template for arc in transition.targets)
        if parts.is_after_loop:
            return not computed
        return not (self.looks.looped or step.sink or computed or self.rules.is_before_vars(parts))

    def _is_certain(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> bool:
        """Whether every successful call, and nothing else, comes to this rule."""
        ends = guard.events is None or EXIT in guard.events  # after a failure too
        both = ends and parts.transition is not None and bool(self.looks.step.tasks)
        if guard.rest or after_success(taken) or not guard.after_success:
            return False
        return self.looks.looped or not both

    def _after_loop(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> None:
        """A rule on `loop.done`: an arc that sets what it sets, or the step's own set_ctx."""
        if parts.transition is not None:
            self.choices.append(self._choice(parts, guard, self._condition(parts, guard, taken)))
        elif guard.rest:
            hint = "let the rule lead on: its arc sets them under its condition"
            self.notes.blocked(parts.rule, "variables that are set under a condition when the loop has ended", hint)
        else:
            self.set_ctx += [values.values for values in parts.sets]

    # kinds of rules --------------------------------------------------------------------------------------------

    def _lead(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> None:
        """A rule that only leads on."""
        if parts.transition is None:
            hint = "leave the rule out, or guard the others against it"
            self.notes.blocked(parts.rule, "a rule that does nothing keeps later ones from matching", hint)
            return
        if self.looks.looped and guard.rest:
            hint = "collect what decides with set_ctx, and guard next.arcs with it"
            self.notes.blocked(parts.rule, "this rule decides per iteration where the step leads", hint)
        if self.looks.looped and guard.after_failure:
            message = "an iteration that failed and led on was done, and a v10 loop ends with the first failure"
            self.notes.differs(parts.rule, message, "let the call's policy go on (do: continue), and read its status")
        if self.looks.looped and self.looks.step.vars is not None and guard.after_failure:
            message = "the vars were written although an iteration failed, and v10 writes set_ctx after a success only"
            self.notes.differs(parts.rule, message, "write them with set_ctx on the arc guarded by step.failed, too")
        self.choices.append(self._choice(parts, guard, self._condition(parts, guard, taken)))

    def _ahead(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> None:
        """Tasks on entry run before the call."""
        if any(other.guard is not None and other.guard.only(ENTER) and not other.guard.rest for other in taken):
            self.notes.changed(parts.rule, "this rule never ran: the one before it took the event; it is left out")
            return
        if parts.transition is not None or guard.rest:
            hint = "split the step: what happens on entry becomes the step before"
            self.notes.blocked(parts.rule, "a rule on entry that decides before the call", hint)
        self.before += self._work(parts, self.copier, in_pipeline=True)

    def _follow(self, parts: RuleParts, guard: Guard) -> None:
        """Tasks after every successful call join the pipeline."""
        self._note_failures(parts, guard)
        # With several such rules, another `choose` comes before or after this one.
        several = sum(bool(other.sets) for other in self.rules.all) > 1
        in_turn = bool(parts.tasks) or several or self.looks.looped or self.rules.is_before_vars(parts)
        items = self._work(parts, self._in_pipeline(), in_pipeline=in_turn)
        (self.exit if guard.only(EXIT) else self.done).extend(items)
        if parts.transition is not None:
            # Only the rule's own tasks can fail here: then it continues nowhere.
            if parts.tasks and not self.looks.step.tasks:
                guard = Guard(frozenset({DONE}), guard.rest)
            self.choices.append(self._choice(parts, guard, self._condition(parts, guard, [])))

    def _choose(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> None:
        """Tasks under a condition, without an exit: a choose after the call."""
        copier = self._in_pipeline()
        names = copier.names
        others = after_success(taken)
        if any(not other.rest for other in others):
            if guard.after_failure:
                hint = "name the event: event.name == 'call.error', with a step to lead to"
                self.notes.differs(parts.rule, "this rule ran after a failed call only, and is left out", hint)
            else:
                self.notes.changed(parts.rule, "this rule never ran after a successful call, and is left out")
            return
        excluded = [f"not ({joined([rename_expression(part, names) for part in other.rest])})" for other in others]
        conditions = [rename_expression(part, names) for part in guard.rest]
        if any(reads(part, "response") for part in [*conditions, *excluded]):
            hint = "read the task that gives it by its name"
            self.notes.blocked(parts.rule, "this condition reads the response, and the step makes no call", hint)
        if any(reads(part, "event") for part in [*conditions, *excluded]):
            hint = "compare event.name with and, apart from the rest"
            self.notes.blocked(parts.rule, "this condition reads the event, which a pipeline does not see", hint)
        self._note_failures(parts, guard)
        tasks = self._work(parts, copier, in_pipeline=True)
        name = self.task_names.free(f"choose_{len(self.done) + len(self.exit)}")
        chosen = choosing_task(name, template(joined([*conditions, *excluded])), tasks)
        (self.exit if guard.only(EXIT) else self.done).append(Item(chosen.value, item_id(parts.rule.node)))

    def _otherwise(self, parts: RuleParts, guard: Guard, position: int) -> None:
        """`else`: no condition of the others was true."""
        others = [(other, other.guard) for other in self.rules.all[:position]]
        conditions = [self._condition(other, its, []) if its is not None else None for other, its in others]
        if any(condition is None for condition in conditions):
            return
        when = " and ".join(f"not ({condition})" for condition in conditions) or None
        self._note_failed_tasks(parts, self.rules.all[:position])
        if parts.works:
            self._leave(parts, guard, when)
        elif parts.transition is not None:
            self.choices.append(self._choice(parts, guard, when))

    def _leave(self, parts: RuleParts, guard: Guard, when: str | None) -> None:
        """Tasks that lead on, or that a failed call leads to: a step of their own."""
        if parts.transition is None and self.rules.goes_on(parts):
            hint = "put these tasks before the transition of the rule that leads on"
            self.notes.blocked(parts.rule, "after these tasks something else still decided where the step leads", hint)
        before = guard.after_success and not guard.only(EXIT)
        if before and ((parts.tasks and self.looks.step.vars is not None) or self.rules.is_before_vars(parts)):
            message = "this rule worked before the step's vars were written, and the step it becomes does so after them"
            self.notes.differs(parts.rule, message, "write the vars with set in the rule, behind its work")
        others = self.rules.task_names() - {task.name for task in parts.tasks}
        self.rules.check_reads(parts, others, template_texts([then_part(parts.rule)]))
        self.rules.check_reads(parts, self.rules.task_names(), [template(when)] if when else [])
        on_failure = [] if guard.only(ERROR) else self._failure_choices()
        if parts.tasks and len(self.rules.taking_failures(parts)) > len(on_failure):
            message = "when the work of this rule fails, another one took over, which the step it becomes does not know"
            self.notes.differs(parts.rule, message, "let the rule only lead on, and do its work in the next step")
        step, target = self.apart.step(parts, guard, on_failure)
        self.extras.append(step)
        self._left.append(parts)
        self.choices.append(Choice(when or self._any_end, guard, (target,), self.copier))

    # their parts -----------------------------------------------------------------------------------------------

    @property
    def _any_end(self) -> str:
        """A condition that is always true of an arc: an arc without a guard would not match failures (ROUTE-05)."""
        return str(event_condition(frozenset({EXIT}), looped=self.looks.looped))

    def _in_pipeline(self) -> Copier:
        if not self.looks.step.tasks:
            return self.copier
        return self.copier.with_names(pipeline_names(self.looks.step))

    def _note_failures(self, parts: RuleParts, guard: Guard) -> None:
        """A pipeline ends with its first failure, and only an arc sees that one."""
        if self.looks.step.tasks and (guard.events is None or EXIT in guard.events):
            message = "these tasks now run after a successful call only; after a failed one they ran too"
            self.notes.differs(parts.rule, message, "if they must, lead there with an arc guarded by step.failed")

    def _note_failed_tasks(self, parts: RuleParts, others: list[RuleParts]) -> None:
        """Such a rule had matched, so that else was out (V2C-08); an arc cannot tell its failure from the call's.
        A rule that is a step of its own fails there, where no else is."""
        guards = [other.guard for other in others if other.guard is not None]
        here = [other for other in others if not any(other is left for left in self._left)]
        takes_failures = any(its.after_failure and not its.rest for its in guards)
        if not takes_failures and any(other.tasks for other in here):
            message = "this else is now taken when a task of another rule fails, too"
            self.notes.differs(parts.rule, message, "write a rule on call.error before it")

    def _failure_choices(self) -> list[Choice]:
        """Where the rules on call.error lead, for the steps that came out of this one."""
        plain = [parts for parts in self.rules.all if not parts.works or self._sets_on_the_way(parts)]
        leading = [parts for parts in plain if parts.transition is not None]
        on_error = [(parts, parts.guard) for parts in leading if parts.guard is not None and parts.guard.only(ERROR)]
        return [self._choice(parts, guard, self._condition(parts, guard, [])) for parts, guard in on_error]

    def _condition(self, parts: RuleParts, guard: Guard, taken: list[RuleParts]) -> str | None:
        """The rule's condition as an arc's, without the cases that a rule which leads nowhere took before it."""
        read = {path[:2] for part in guard.rest for path in paths(template(part))}
        if guard.events is None and read & {("response", "status_code"), ("response", "error")}:
            hint = "add event.name == 'call.done' or event.name == 'call.error'"
            self.notes.blocked(parts.rule, "this condition reads the response without saying of which event", hint)
        own = self.looks.arc_condition(guard)
        if self.looks.looped and guard.only(DONE) and not parts.is_after_loop and parts.transition is not None:
            # A loop over an empty collection had no finished call.
            own = joined([str(own), "event.data.done > 0"])
        silent = [other.guard for other in taken if other.transition is None and other.guard is not None]
        excluded = [f"not ({self.looks.arc_condition(other)})" for other in silent]
        conditions = [own, *excluded] if own is not None else excluded
        return joined(conditions) if conditions else None

    def _choice(self, parts: RuleParts, guard: Guard, when: str | None) -> Choice:
        transition = parts.transition
        assert transition is not None
        copier = self.copier.with_names(self.looks.arc_names(guard))
        narrowed = guard_of(transition, copier)
        if narrowed is not None:
            when = joined([when, narrowed]) if when else narrowed
        when = when or self._any_end
        self.rules.check_reads(
            parts, self.rules.task_names(), [template(when), *template_texts(arc.args for arc in transition.targets)]
        )
        targets = targets_of(transition.targets, transition_options(transition, copier), copier, self.notes)
        origin = item_id(parts.rule.node)
        writes = self._writes(parts, copier) if self._sets_on_the_way(parts) else ()
        first = [msgspec.structs.replace(target, origin=origin, writes=writes) for target in targets[:1]]
        return Choice(when, guard, (*first, *targets[1:]), copier)

    def _writes(self, parts: RuleParts, copier: Copier) -> tuple[FragmentEntry, ...]:
        """The assignments of the rule, in the syntax of an arc; for each name the last value."""
        entries = [copier.renamed_entry(one.values, key, key) for one in parts.sets for key in one.values.values]
        return tuple({entry.key: entry for entry in entries}.values())

    def _work(self, parts: RuleParts, copier: Copier, *, in_pipeline: bool) -> list[Item]:
        items = rule_tasks(copier, self.looks.step, parts.rule, parts.tasks, self.task_names)
        for values in parts.sets:
            if in_pipeline:
                written = tuple(copier.renamed_entries(values.values))
                items.append(setting_task(self.task_names.free("set_vars"), Mapped(written)))
            else:
                self.set_ctx.append(values.values)
        return items
