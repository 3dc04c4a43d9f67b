"""A v2-case step as one pipeline that jumps, for rules that have no simpler place in v10 (MIG-03, O-29).

The sequence of a case run is written out: the call, a task that evaluates the rules, the tasks of each rule, the sink,
the vars, the rules on `step.exit`, `else`. The history is in `iter`; a failure evaluates the rules again (V2C-11). The
last tasks record for the arcs which rule continues, and fail the step with the remaining error.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.base.template_names import Renames, template
from noetl.language.migrating import fragments
from noetl.language.migrating.document_editor import item_id, key_id
from noetl.language.migrating.eval_rules import prefix
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, Literal, Mapped
from noetl.language.migrating.notes import Notes
from noetl.language.reading.playbook import CaseExit, SetVars, StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import DONE, ERROR, EXIT, Guard, joined, rename_expression
from noetl.language.v2_case.migration.retry import CallPolicy
from noetl.language.v2_case.migration.routes import guard_of
from noetl.language.v2_case.migration.rules import RuleParts
from noetl.language.v2_case.migration.tasks import (
    TaskNames,
    keeping_task,
    merged_args,
    name_of,
    noop_task,
    own_names,
    pipeline_names,
    plain_task,
    policy_entry,
    policy_rule,
    rule_task_origin,
    set_iter_entry,
    sink_name,
)

_WORDS = ("rules", "then", "vars", "exit", "else", "way", "result")
_FAILED = "outcome.status == 'error'"
_EXHAUSTED = {
    "kind": "retry.exhausted",
    "message": "{{ outcome.error.message }}",
    "status": "{{ outcome.error.status }}",
    "cause": "{{ outcome.error }}",
}


class Labels(msgspec.Struct, frozen=True):
    """The names of the tasks that hold a pipeline together."""

    rules: str
    after: str
    vars: str
    exit: str
    otherwise: str
    way: str
    result: str


class CasePipeline:
    """The tasks of one step; `rules` are its case, each with a known guard."""

    def __init__(
        self, step: StepSyntax, call: TaskSyntax | None, call_name: str, rules: Sequence[RuleParts], copier: Copier
    ) -> None:
        self.step, self.call, self.call_name, self.copier = step, call, call_name, copier
        self.rules = [parts for parts in rules if parts.rule.when is not None]
        self.otherwise = next((parts for parts in rules if parts.rule.when is None), None)
        self.all_rules = [*self.rules, *([self.otherwise] if self.otherwise is not None else [])]
        taken = {call_name, sink_name(step), *(task.name for parts in rules for task in parts.tasks if task.name)}
        self._names = TaskNames(taken)
        self.labels = Labels(*(self._names.free(f"{prefix(step.name)}_{word}") for word in _WORDS))
        self._inclusive = step.options.case_mode == "inclusive"
        self._has_exit = any(_takes_exit(guard_of_rule(parts)) for parts in self.rules)
        self._can_fail = call is not None or any(parts.tasks for parts in rules)
        # Only rules for several events have to check whether the current one is a failure.
        self._has_wide = any(_is_wide(guard_of_rule(parts)) for parts in self.rules)

    @property
    def leads(self) -> bool:
        return any(parts.transition is not None for parts in self.all_rules)

    def way_of(self, parts: RuleParts) -> int:
        """The name of a rule for the arcs."""
        return 1 + next(number for number, one in enumerate(self.all_rules) if one is parts)

    def flag_of(self, parts: RuleParts) -> str:
        """The key of ctx that tells the arcs of a loop that a rule led on in some iteration."""
        return f"{prefix(self.step.name)}_leads_{self.way_of(parts)}"

    def items(self, notes: Notes) -> list[Item]:
        self._written = TaskNames({self.call_name, *msgspec.structs.astuple(self.labels)})
        blocks = [self._block(parts) for parts in self.rules]
        asked = [self._rules_task(blocks), *(item for block in blocks for item in block), self._tasks_after_rules()]
        last = self._block(self.otherwise) if self.otherwise is not None else []
        ends = [*(self._else(last) if self.otherwise is not None else []), *last, *self._end()]
        if self.call is None:
            return [*self._exit(), *asked, *ends]
        return [self._call(notes), *asked, *self._sink(), *self._vars(), *self._exit(), *ends]

    # where a run goes on ----------------------------------------------------------------------------------------

    @property
    def _on_success(self) -> str:
        """The tasks after the rules on the call, if nothing failed."""
        if self.step.sink is not None and self.call is not None:
            return sink_name(self.step)
        return self.labels.vars if self._writes_vars else self._at_exit

    @property
    def _at_exit(self) -> str:
        return self.labels.exit if self._has_exit else self._at_else

    @property
    def _at_else(self) -> str:
        return self.labels.otherwise if self.otherwise is not None else self.labels.way

    @property
    def _writes_vars(self) -> bool:
        """Those of a loop are written when it has ended, by the step's set_ctx."""
        return self.step.vars is not None and self.step.loop is None

    @property
    def _has_phases(self) -> bool:
        return self._has_exit or self.otherwise is not None

    # what is read in rules ---------------------------------------------------------------------------------------

    def names(self, guard: Guard, *, is_else: bool = False) -> Renames:
        """The names of a rule in the pipeline: those of the call, of the error, or of either."""
        if self.call is not None and guard.only(DONE) and not is_else:
            return pipeline_names(self.step)
        error = {"response.status_code": "iter.case_error.status", "response.error": "iter.case_error"}
        names = {
            "error": "iter.case_error" if self._can_fail else "none",
            **(error if guard.only(ERROR) and not is_else else {}),
        }
        if self.call is None:
            return {**names, "result": "none"}
        # A failed call has no result to read.
        if guard.only(ERROR) and not is_else:
            failed = {f"{name}.error": "iter.case_error" for name in own_names(self.step, "")}
            return {**names, "result": "none", **failed, **own_names(self.step, "none")}
        if guard.only(EXIT) or is_else:
            return {**names, "result": f"{self.call_name}.data", **own_names(self.step, self.call_name)}
        seen = f"({self.call_name} if not iter.case_failing else none)"
        return {**names, "result": f"{seen}.data", **own_names(self.step, seen)}

    @property
    def _failure(self) -> dict[str, object]:
        return {**self._event(ERROR, failing=True), "case_error": "{{ outcome.error }}"}

    def _event(self, name: str, *, failing: bool = False) -> dict[str, object]:
        """The data of an event in iter; whether it is a failure, for rules that also match other events."""
        return {"case_event": name, **({"case_failing": failing} if self._has_wide else {})}

    def _condition(self, parts: RuleParts) -> str:
        guard = guard_of_rule(parts)
        asked = [] if guard.events is None else [_one_of("iter.case_event", sorted(guard.events))]
        ran = [f"not iter.{self._ran_flag(parts)}"] if self._is_asked_again(guard) else []
        names = {key: new for key, new in self.names(guard).items() if key != "error"}
        rest = [rename_expression(part, {**self.copier.names, **names}) for part in guard.rest]
        return joined([*ran, *asked, *rest]) if ran or asked or rest else "true"

    def _ran_flag(self, parts: RuleParts) -> str:
        return f"case_ran_{self.way_of(parts)}"

    def _is_asked_again(self, guard: Guard) -> bool:
        """Whether the event of a rule can occur twice: a call is done once, and a step has one exit."""
        return not (guard.only(DONE) or guard.only(EXIT))

    def _notes_of(self, parts: RuleParts) -> dict[str, object]:
        """The recorded data of a rule that runs."""
        guard = guard_of_rule(parts)
        again = parts.rule.when is not None and self._is_asked_again(guard)
        return {
            **({self._ran_flag(parts): True} if again else {}),
            **({"case_matched": True} if self.otherwise is not None and parts.rule.when is not None else {}),
        }

    # tasks ------------------------------------------------------------------------------------------------------

    def _call(self, notes: Notes) -> Item:
        assert self.call is not None
        exhausted = set_iter_entry({**self._failure, "case_error": _EXHAUSTED})
        retries = CallPolicy(self.step, self.copier, notes, exhausted).retries()
        done: dict[str, object] = {**self._event(DONE), "case_error": None}
        rules = [
            *retries,
            policy_rule(_FAILED, "continue", set_iter=self._failure),
            policy_rule(None, "continue", set_iter=done),
        ]
        name = FragmentEntry("name", fragments.literal(self.call_name))
        args = merged_args(self.copier, self.step, self.call)
        return Item(Mapped(tuple(fragments.task_entries(self.copier, self.call, name, [policy_entry(rules)], args))))

    def _rules_task(self, blocks: Sequence[Sequence[Item]]) -> Item:
        """The task that asks the rules about an event: the first that holds runs, or each in turn."""
        if self._inclusive:
            hits: dict[str, object] = {
                f"case_hit_{self.way_of(one)}": template(self._condition(one)) for one in self.rules
            }
            return noop_task(self.labels.rules, [policy_rule(None, "continue", set_iter=hits)])
        rules = []
        for parts, block in zip(self.rules, blocks, strict=True):
            to = name_of(block[0]) if block else self.labels.after
            own = self._notes_of(parts)
            if self._leads_at_once(parts):
                to, own = self._led_to(guard_of_rule(parts)), {**own, "case_way": self.way_of(parts)}
            rules.append(policy_rule(self._condition(parts), "jump", to=to, set_iter=own))
        return noop_task(self.labels.rules, [*rules, policy_rule(None, "jump", to=self.labels.after)])

    def _leads_at_once(self, parts: RuleParts) -> bool:
        """Whether a rule only leads to a step, and the next task after it is known."""
        alone = len(parts.rule.actions) == 1 and parts.transition is not None and parts.transition.guard is None
        return alone and not self._inclusive and self._led_to(guard_of_rule(parts)) != ""

    def _led_to(self, guard: Guard) -> str:
        """Where a step goes on when a rule has led on: a success is stored first. Empty where it depends on the run."""
        if self._on_success == self.labels.way or self.call is None or guard.only(ERROR) or guard.only(EXIT):
            return self.labels.way
        return self._on_success if guard.only(DONE) else ""

    def _tasks_after_rules(self) -> Item:
        """The tasks after the rules if none continued to a step."""
        rules: list[Item] = []
        if self.otherwise is not None:
            rules.append(policy_rule("iter.case_phase == 'else'", "jump", to=self.labels.way))
        if self._has_exit:
            rules.append(policy_rule("iter.case_phase == 'exit'", "jump", to=self._at_else))
        if self.call is not None and self._on_success != self._at_exit:
            rules.append(policy_rule("iter.case_error", "jump", to=self._at_exit))
        return noop_task(self.labels.after, [*rules, policy_rule(None, "jump", to=self._on_success)])

    def _sink(self) -> list[Item]:
        """A decision about a result that could not be stored has no effect."""
        if self.step.sink is None:
            return []
        way: dict[str, object] = {"case_way": None} if self.leads else {}
        failed = policy_rule(_FAILED, "jump", to=self.labels.rules, set_iter={**self._failure, **way})
        rules = [failed, policy_rule(None, "jump", to=self.labels.vars if self._writes_vars else self._at_exit)]
        copier = self.copier.with_names(pipeline_names(self.step))
        task = plain_task(copier, self.step.sink, sink_name(self.step), False, [policy_entry(rules)])
        return [Item(task, key_id(self.step.node.keys["sink"]))]

    def _vars(self) -> list[Item]:
        if not self._writes_vars or self.step.vars is None:
            return []
        copier = self.copier.with_names(pipeline_names(self.step))
        values = Mapped(tuple(copier.renamed_entries(self.step.vars)))
        return [noop_task(self.labels.vars, [policy_rule(None, "jump", to=self._at_exit, set_ctx=values)])]

    def _exit(self) -> list[Item]:
        if not self._has_exit:
            return []
        own: dict[str, object] = {**self._event(EXIT), "case_phase": "exit"}
        led = [policy_rule("iter.case_way", "jump", to=self.labels.way)] if self.leads and self.call is not None else []
        return [noop_task(self.labels.exit, [*led, policy_rule(None, "jump", to=self.labels.rules, set_iter=own)])]

    def _else(self, block: Sequence[Item]) -> list[Item]:
        to = name_of(block[0]) if block else self.labels.way
        own: dict[str, object] = {"case_phase": "else"}
        if not self.rules:
            return [noop_task(self.labels.otherwise, [policy_rule(None, "jump", to=to, set_iter=own)])]
        begin = policy_rule("not iter.case_matched", "jump", to=to, set_iter=own)
        return [noop_task(self.labels.otherwise, [begin, policy_rule(None, "jump", to=self.labels.way)])]

    def _end(self) -> list[Item]:
        if self.step.loop is not None:
            return self._end_of_iteration()
        fail = [policy_rule("iter.case_error", "fail", error="{{ iter.case_error }}")] if self._can_fail else []
        args = fragments.from_data({"rule": "{{ iter.case_way }}"}) if self.leads else None
        way_task = noop_task(self.labels.way, [*fail, policy_rule(None, "continue")], args)
        if self.call is not None:
            return [way_task, keeping_task(self.labels.result, self.call_name)]
        works = any(parts.tasks for parts in self.all_rules)
        # A plain null would mean no args at all.
        given = fragments.literal("{{ iter.case_given }}" if works else "{{ none }}")
        return [way_task, noop_task(self.labels.result, [], given)]

    def _end_of_iteration(self) -> list[Item]:
        """A failure from which a rule leads on does not fail the loop: the iteration is done, without a result
        (V2C-23)."""
        left = "iter.case_error and not iter.case_way" if self.leads else "iter.case_error"
        rules = [policy_rule(left, "fail", error="{{ iter.case_error }}")]
        for parts in self.all_rules:
            if parts.transition is not None:
                flag = Mapped((FragmentEntry(self.flag_of(parts), Literal("true")),), flow=True)
                rules.append(policy_rule(f"iter.case_way == {self.way_of(parts)}", "continue", set_ctx=flag))
        # Null for an iteration that failed and led on: it has no result.
        result = fragments.literal(f"{{{{ {self.call_name}.data if not iter.case_error else none }}}}")
        way_task = noop_task(self.labels.way, [*rules, policy_rule(None, "continue")])
        return [way_task, noop_task(self.labels.result, [], result)]

    # the work of a rule -------------------------------------------------------------------------------------------

    def _block(self, parts: RuleParts) -> list[Item]:
        """The actions of a rule, one after another; the last one jumps to the tasks after the rules."""
        is_else = parts.rule.when is None
        end = self.labels.way if is_else else self.labels.after
        copier = self.copier.with_names(self.names(guard_of_rule(parts), is_else=is_else))
        items: list[Item] = []
        actions = () if not is_else and self._leads_at_once(parts) else parts.rule.actions
        # From the end, because each task jumps to the one behind it, by its name.
        for action in reversed(actions):
            to = name_of(items[0]) if items else end
            items.insert(0, self._action(parts, action, copier, to))
        if self._inclusive and not is_else:
            items.insert(0, self._turn_task(parts, items, end))
        first = Item(items[0].value, items[0].origin or item_id(parts.rule.node)) if items else None
        return [first, *items[1:]] if first is not None else []

    def _turn_task(self, parts: RuleParts, items: Sequence[Item], end: str) -> Item:
        """Whether it is the turn of a rule that is one of several."""
        following = self.rules[self.way_of(parts) :]
        skip = self._turn_name(following[0]) if following else end
        rules = [policy_rule(f"not iter.case_hit_{self.way_of(parts)}", "jump", to=skip)]
        to = name_of(items[0]) if items else skip
        return noop_task(
            self._turn_name(parts), [*rules, policy_rule(None, "jump", to=to, set_iter=self._notes_of(parts))]
        )

    def _turn_name(self, parts: RuleParts) -> str:
        return f"{self.labels.rules}_{self.way_of(parts)}"

    def _action(self, parts: RuleParts, action: object, copier: Copier, to: str) -> Item:
        # In inclusive mode the other matching rules run as well.
        if self._inclusive and to == self.labels.after:
            following = self.rules[self.way_of(parts) :]
            to = self._turn_name(following[0]) if following else to
        if isinstance(action, TaskSyntax):
            done: dict[str, object] = {"case_given": "{{ outcome.data }}"} if self.call is None else {}
            failed = policy_rule(_FAILED, "jump", to=self.labels.rules, set_iter=self._failure)
            policy = policy_entry([failed, policy_rule(None, "jump", to=to, set_iter=done)])
            name = self._written.free(action.name or sink_name(self.step, parts.rule))
            return Item(plain_task(copier, action, name, True, [policy]), rule_task_origin(parts.rule, action))
        if isinstance(action, SetVars):
            values = Mapped(tuple(copier.renamed_entries(action.values)))
            return noop_task(self._free(parts, "set"), [policy_rule(None, "jump", to=to, set_ctx=values)])
        assert isinstance(action, CaseExit)
        return self._leading(parts, action, copier, to)

    def _leading(self, parts: RuleParts, action: CaseExit, copier: Copier, to: str) -> Item:
        """A rule leads on: a result is stored first, where there is one."""
        way: dict[str, object] = {"case_way": self.way_of(parts)}
        narrowed = guard_of(action, copier)
        rules = [policy_rule(f"not ({narrowed})", "jump", to=to)] if narrowed is not None else []
        on = self.labels.way if parts.rule.when is None else self._led_to(guard_of_rule(parts))
        if not on:
            over = "iter.case_error or iter.case_phase" if self._has_phases else "iter.case_error"
            rules.append(policy_rule(over, "jump", to=self.labels.way, set_iter=way))
        last = policy_rule(None, "jump", to=on or self._on_success, set_iter=way)
        return noop_task(self._free(parts, "next"), [*rules, last])

    def _free(self, parts: RuleParts, word: str) -> str:
        return self._names.free(f"{prefix(self.step.name)}_case_{self.way_of(parts) - 1}_{word}")


def guard_of_rule(parts: RuleParts) -> Guard:
    assert parts.guard is not None
    return parts.guard


def _is_wide(guard: Guard) -> bool:
    """Whether it takes events of several kinds."""
    return not any(guard.only(event) for event in (DONE, ERROR, EXIT))


def _takes_exit(guard: Guard) -> bool:
    return guard.events is None or EXIT in guard.events


def _one_of(name: str, words: Sequence[str]) -> str:
    if len(words) == 1:
        return f"{name} == '{words[0]}'"
    return f"{name} in [{', '.join(repr(word) for word in words)}]"
