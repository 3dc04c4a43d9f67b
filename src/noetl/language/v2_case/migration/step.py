"""One v2-case step: its rules sorted, its pipeline built, its exit written (MIG-03, O-29)."""

from __future__ import annotations

from noetl.language.migrating.document_editor import item_id, key_id, origin_of
from noetl.language.migrating.eval_rules import lifecycle_entry, prefix
from noetl.language.migrating.fragments import (
    KNOBS,
    CopiedEntry,
    Copier,
    Entry,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    kept_as_comments,
    literal,
    task_entries,
)
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import StepSyntax, TaskSyntax
from noetl.language.v2_case.migration.guards import Guard
from noetl.language.v2_case.migration.retry import CallPolicy, Pages, is_pages
from noetl.language.v2_case.migration.routes import Choice, RouterPieces, targets_of
from noetl.language.v2_case.migration.rule_placement import CaseSorting
from noetl.language.v2_case.migration.rules import Looks
from noetl.language.v2_case.migration.tasks import (
    TaskNames,
    call_name,
    handlers_entry,
    keeping_task,
    loop_entry,
    merged_args,
    pipeline_names,
    plain_task,
    setting_task,
    sink_name,
)
from noetl.language.v2_case.rules import RULE_KEYS

_UNWRAPPED = frozenset({"http", "postgres", "duckdb", "snowflake", "ducklake", "playbook"})
_CONSUMED = ("spec", "args", "loop", "tool", "retry", "vars", "case", "sink", "next", "set_ctx", "on_event")
_COPIED = ("timer", "message", "signal", "human_task", "timeout", "compensate")


class CaseStep:
    def __init__(
        self, step: StepSyntax, copier: Copier, notes: Notes, names: TaskNames, *, read_elsewhere: bool, forks: bool
    ) -> None:
        self.step, self.node, self.notes = step, step.node, notes
        self.call = next((task for task in step.tasks if isinstance(task, TaskSyntax)), None)
        self.call_name = call_name(step)
        self.read_elsewhere = read_elsewhere
        self.copier = copier
        view = step.name if step.name.isidentifier() else prefix(step.name)
        self.looks = Looks(step, view, self.call is not None and self.call.kind in _UNWRAPPED)
        self.pages = self._pages()
        taken = {self.call_name} if self.call else set()
        self.sorting = CaseSorting(self.looks, copier, notes, names, TaskNames(taken), forks=forks)

    def items(self) -> list[Item]:
        choices = self._placed()
        entries: list[Entry] = []
        entries += self.copier.entries(self.node, ("step", "desc"))
        entries += self._spec()
        entries += self.copier.entries(self.node, ("args",))
        if "loop" in self.node:
            entries.append(loop_entry(self.copier, self.step))
        entries += self._tool(choices)
        entries += self._set_ctx()
        entries += self.copier.entries(self.node, ("result", *_COPIED))
        if self.step.blocks.on_event is not None:
            entries.append(handlers_entry(self.copier, self.step, self.step.blocks.on_event))
        entries += self._next(choices)
        entries += self._unknown()
        flow = self.copier.old.is_flow(self.node)
        return [Item(Mapped(tuple(entries), flow=flow), item_id(self.node)), *self.sorting.extras]

    def _placed(self) -> list[Choice]:
        """The rules in their places, and their exits."""
        self._check()
        self._check_failures()
        self.sorting.sort()
        return [*self.sorting.choices, *self._shortcut()]

    def _check(self) -> None:
        spec = self.step.spec
        if self.step.options.eval_mode == "on_event" and spec is not None:
            self.notes.blocked(
                spec.keys["eval_mode"],
                "eval_mode: on_event listens to every event of the execution, and v10 steps do not",
                "write wait blocks (timer, message, signal, human_task) with next.arcs guarded by event.name, "
                "or on_event handlers",
            )
        if self.looks.view != self.step.name and (self.step.vars or self.step.case):
            message = f'templates cannot read the step "{self.step.name}" by its name'
            self.notes.blocked(self.step.name_node, message, f"rename it to {self.looks.view} first")

    def _check_failures(self) -> None:
        """Tasks of rules can fail too. In v2-case the consequence depends on the other rules, which arcs do not see."""
        if self.step.case is None:
            return
        hint = "let each rule only lead on, and do its work in the step that it leads to"
        if self.step.options.on_error == "continue" and (self.step.sink is not None or self.sorting.rules.works):
            message = (
                "on_error: continue holds for the work of these rules too, and arcs cannot tell whose failure it was"
            )
            self.notes.differs(self.step.case, message, hint)
        elif self._works_in_several_parts():
            message = "several parts of this step work, and when one fails the others went on as v10 does not"
            self.notes.differs(self.step.case, message, hint)
        elif self.sorting.rules.works and self.call is None and len(self.step.case.rules) > 1:
            message = "when the work of one of these rules fails, another one took over, which arcs cannot tell apart"
            self.notes.differs(self.step.case, message, hint)
        elif self.step.loop is not None and len(self.step.case.rules) > 1:
            message = "these rules were looked at in every iteration, and a v10 router looks once"
            self.notes.differs(self.step.case, message, "keep one rule, or collect what decides with set_ctx")

    def _works_in_several_parts(self) -> bool:
        """The sink is such a part, too."""
        works = self.sorting.rules.works
        return (works > 1 and not self.sorting.rules.is_success_and_failure) or (
            works > 0 and self.step.sink is not None
        )

    def _pages(self) -> Pages | None:
        if self.call is None or not any(is_pages(retry) for retry in self.step.retry):
            return None
        return Pages(self.step, self.call, self.copier, self.notes)

    # spec ------------------------------------------------------------------------------------------------------

    def _spec(self) -> list[FragmentEntry]:
        spec = self.step.spec
        kept: list[Entry] = []
        policy: list[FragmentEntry] = []
        own = ("case_mode", "eval_mode", "on_error", "timeout")
        if spec is not None:
            kept += self.copier.entries(spec, [key for key in spec.values if key not in own])
            if "timeout" in spec:
                policy.append(lifecycle_entry(self.copier, spec, self.notes))
        tolerant = self.step.options.on_error == "continue" or (
            self.step.loop is not None and self.step.loop.on_error == "continue"
        )
        if tolerant:
            policy.append(FragmentEntry("failure", Mapped((FragmentEntry("mode", Literal("best_effort")),), flow=True)))
        if policy:
            kept.append(FragmentEntry("policy", Mapped(tuple(policy))))
        origin = origin_of(self.node, "spec")
        return [FragmentEntry("spec", Mapped(tuple(kept)), origin)] if kept else []

    # pipeline --------------------------------------------------------------------------------------------------

    def _tool(self, choices: list[Choice]) -> list[Entry]:
        tail = self._tail()
        if self._must_keep(tail, choices):
            tail.append(keeping_task(self.sorting.task_names.free(f"{prefix(self.step.name)}_result"), self.call_name))
        self._check_response(tail, choices)
        origin = origin_of(self.node, "tool")
        head = [*self.sorting.before, *self._calls(named=bool(tail or self.sorting.before))]
        if not tail and len(head) == 1 and self.pages is None and self.call is not None:
            return [self._single(head[0])]
        if not tail and not head:
            return []
        return [FragmentEntry("tool", ListFragment((*head, *tail)), origin)]

    def _single(self, item: Item) -> Entry:
        """One call stays one mapping, and if nothing about it changed, it stays as it was written."""
        tool = self.node.values["tool"]
        untouched = isinstance(tool, Mapping) and not any(knob in tool for knob in KNOBS)
        if untouched and not self.step.retry and self.step.args is None:
            return self.copier.entry(self.node, "tool")
        return FragmentEntry("tool", item.value, key_id(self.node.keys["tool"]))

    def _calls(self, *, named: bool) -> list[Item]:
        if self.call is None:
            return []
        if self.pages is not None:
            return self.pages.items()
        policy = CallPolicy(self.step, self.copier, self.notes).entry()
        name = FragmentEntry("name", literal(self.call_name)) if named else None
        entries = task_entries(
            self.copier, self.call, name, [policy] if policy else [], merged_args(self.copier, self.step, self.call)
        )
        flow = self.copier.old.is_flow(self.call.node) and policy is None
        return [Item(Mapped(tuple(entries), flow=flow))]

    def _tail(self) -> list[Item]:
        """The tasks after the call, in the order of O-29: done rules, the sink, vars, exit rules."""
        tail = list(self.sorting.done)
        if self.step.sink is not None:
            copier = self.copier.with_names(pipeline_names(self.step))
            name = self.sorting.task_names.free(sink_name(self.step))
            origin = key_id(self.node.keys["sink"])
            tail.append(Item(plain_task(copier, self.step.sink, name, label=False), origin))
        extended = bool(tail or self.sorting.exit)
        if extended and self.step.vars is not None and self.step.loop is None and self.pages is None:
            copier = self.copier.with_names(pipeline_names(self.step))
            values = Mapped(tuple(copier.renamed_entries(self.step.vars)))
            tail.append(setting_task(self.sorting.task_names.free("keep_vars"), values))
        return [*tail, *self.sorting.exit]

    def _check_response(self, tail: list[Item], choices: list[Choice]) -> None:
        """Behind other tasks only the call's payload is left, not its status or headers."""
        if tail and any(f"{self.looks.view}.result" in (choice.when or "") for choice in choices):
            message = "a condition reads the whole response, which is gone when other tasks have run after the call"
            self.notes.blocked(self.step, message, "keep what decides with set_ctx, and guard next.arcs with it")

    def _must_keep(self, tail: list[Item], choices: list[Choice]) -> bool:
        """Whether anything still reads the call's result as that of the step."""
        if not tail or self.call is None:
            return False
        routed = any(reads_result(choice, self.looks.view) for choice in choices)
        # Then the result of this step is the result of the execution (O-08).
        ends_here = not any(_takes_success(choice) for choice in choices)
        return self.read_elsewhere or routed or ends_here or (self.step.vars is not None and self.step.loop is not None)

    # what is written and where it leads ------------------------------------------------------------------------

    def _set_ctx(self) -> list[Entry]:
        values: list[FragmentEntry] = []
        view = self.looks.view
        names = {"result": f"{view}.data", "response": f"{view}.result", "this": view}
        if self.pages is not None:
            names |= self.pages.result_names(view)
        copier = self.copier.with_names(names)
        in_pipeline = bool(self.sorting.done or self.sorting.exit or self.step.sink)
        if self.step.vars is not None and (not in_pipeline or self.step.loop is not None or self.pages is not None):
            values += copier.renamed_entries(self.step.vars)
        for written in self.sorting.set_ctx:
            values += copier.renamed_entries(written)
        if self.step.set_ctx is not None:
            values += self.copier.renamed_entries(self.step.set_ctx)
        if not values:
            return []
        origin = next((key_id(self.node.keys[key]) for key in ("vars", "set_ctx") if key in self.node), "")
        # Of one name the value that was written last.
        unique = {entry.key: entry for entry in values}
        flow = self.step.vars is not None and self.copier.old.is_flow(self.step.vars)
        return [FragmentEntry("set_ctx", Mapped(tuple(unique.values()), flow=flow), origin)]

    def _shortcut(self) -> list[Choice]:
        router = self.step.router
        if router is None:
            return []
        copier = self.copier.with_names(self.looks.arc_names(Guard(None, ())))
        targets = targets_of(router.arcs, (), copier, self.notes)
        return [Choice(None, Guard(None, ()), targets, copier)] if targets else []

    def _takes_several(self) -> bool:
        """Whether several exits can be taken together."""
        return False

    def _next(self, choices: list[Choice]) -> list[FragmentEntry]:
        key: Scalar | None = self.node.keys.get("case") or self.node.keys.get("next")
        flow = "case" not in self.node and len(choices) == 1
        pieces = RouterPieces(self.step, always=self.step.options.on_error == "continue", forks=self._takes_several())
        entry = pieces.entry(choices, key_id(key) if key is not None else "", flow=flow)
        return [entry] if entry is not None else []

    def _unknown(self) -> list[CopiedEntry]:
        known = ("step", "desc", "result", *_CONSUMED, *_COPIED)
        kept = kept_as_comments(self.copier, self.node, known, self.notes)
        for rule in self.step.case.rules if self.step.case is not None else ():
            # The rule may have become an arc, a task or a step, so its comment stays with the step.
            if isinstance(rule.node, Mapping):
                kept += kept_as_comments(self.copier, rule.node, RULE_KEYS, self.notes)
        return kept


def _takes_success(choice: Choice) -> bool:
    """Whether every success of the step takes an exit."""
    return bool(choice.targets) and choice.when in (None, "event.name == 'step.done'", "event.name == 'loop.done'")


def reads_result(choice: Choice, view: str) -> bool:
    """Whether an exit reads the step's result."""
    texts = [choice.when or "", *(target.when or "" for target in choice.targets)]
    for target in choice.targets:
        if target.args is not None:
            texts += [choice.copier.text(node) for node in target.args.values.values() if isinstance(node, Scalar)]
    return any("event.result" in text or f"{view}." in text for text in texts)
