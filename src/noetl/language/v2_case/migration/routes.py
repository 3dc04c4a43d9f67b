"""Routes: the transitions of a v2-case step as arcs of one router (MIG-03, V2C-04, V2C-12, V2C-25, C-09).

A choice is one exit with all its targets. If no choice forks, arcs are in order and the first match is taken; if one
does, the router is inclusive and each choice excludes those before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.base.template_names import NameToken, expression, paths, template, tokens
from noetl.language.migrating.document_editor import item_id
from noetl.language.migrating.eval_rules import prefix
from noetl.language.migrating.fragments import Copier, FragmentEntry, Item, ListFragment, Literal, Mapped, literal
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, scalars
from noetl.language.reading.playbook import ArcSyntax, CaseExit, StepSyntax
from noetl.language.v2_case.migration.guards import DONE, ERROR, EXIT, Guard, joined
from noetl.language.v2_case.migration.rules import Looks, RuleParts, template_texts, then_part
from noetl.language.v2_case.migration.tasks import TaskNames, failing_task, keeping_task, rule_tasks, setting_task


class ArcTarget(msgspec.Struct, frozen=True):
    """Where a choice leads. `extra` are args that the migration itself hands over."""

    step: str
    # An additional condition of this target only.
    when: str | None = None
    # Taken if that condition is false.
    otherwise: bool = False
    args: Mapping | None = None
    extra: tuple[FragmentEntry, ...] = ()
    options: tuple[FragmentEntry, ...] = ()
    # Writes to ctx when the arc is taken.
    writes: tuple[FragmentEntry, ...] = ()
    origin: str = ""


class Choice(msgspec.Struct, frozen=True):
    """`when` None: every event but a failure. `guard` says which events it can be true for."""

    when: str | None
    guard: Guard
    targets: tuple[ArcTarget, ...]
    copier: Copier


def targets_of(
    arcs: tuple[ArcSyntax, ...], options: tuple[FragmentEntry, ...], copier: Copier, notes: Notes
) -> tuple[ArcTarget, ...]:
    """Targets as v10 may name them: a computed one becomes one target per name it can give."""
    found: list[ArcTarget] = []
    for arc in arcs:
        own = _arc_options(arc, copier)
        origin = item_id(arc.node) if isinstance(arc.node, Mapping) else ""
        if not arc.template:
            name = str(arc.target.value)
            found.append(ArcTarget(name, args=arc.args, options=(*options, *own), origin=origin))
            continue
        computed = _ternary(copier.text(arc.target))
        if computed is None or len(arcs) > 1:
            hint = "write one guarded arc per target in next.arcs"
            notes.blocked(arc.target, "this target is computed, and v10 routes to steps by name", hint)
            continue
        then, condition, otherwise = computed
        found.append(ArcTarget(then, condition, args=arc.args, options=(*options, *own), origin=origin))
        found.append(ArcTarget(otherwise, condition, otherwise=True, args=arc.args, options=(*options, *own)))
    return tuple(found)


def transition_options(transition: CaseExit, copier: Copier) -> tuple[FragmentEntry, ...]:
    """A transition's spec as that of an arc; its guard is part of the condition instead."""
    spec = transition.node.get("spec") if isinstance(transition.node, Mapping) else None
    if not isinstance(spec, Mapping):
        return ()
    return tuple(copier.renamed_entry(spec, key, key) for key in ("delay", "trigger_compensation") if key in spec)


def guard_of(transition: CaseExit, copier: Copier) -> str | None:
    if transition.guard is None or transition.guard.value is True:
        return None
    return expression(copier.text(transition.guard)) or "false"


def _arc_options(arc: ArcSyntax, copier: Copier) -> tuple[FragmentEntry, ...]:
    return tuple(copier.renamed_entries(arc.spec)) if arc.spec is not None else ()


def _ternary(text: str) -> tuple[str, str, str] | None:
    """`'a' if condition else 'b'`, taken apart."""
    inner = expression(text)
    found = tokens(template(inner)) if inner is not None else None
    if found is None:
        return None
    body = found[1:-1]
    words = [position for position, token in enumerate(body) if token.kind == "name" and token.text in ("if", "else")]
    if len(words) != 2 or body[words[0]].text != "if":
        return None
    first, condition, last = body[: words[0]], body[words[0] + 1 : words[1]], body[words[1] + 1 :]
    ends = [_string(part) for part in (first, last)]
    if ends[0] is None or ends[1] is None:
        return None
    return ends[0], "".join(token.text for token in condition).strip(), ends[1]


def _string(part: list[NameToken]) -> str | None:
    words = [token for token in part if token.kind != "whitespace"]
    return words[0].text.strip("'\"") if len(words) == 1 and words[0].kind == "string" else None


class RouterPieces:
    """Builds one step's `next` from its choices, in order."""

    def __init__(self, step: StepSyntax, *, always: bool, forks: bool = False) -> None:
        self.step = step
        # Several choices may be taken together.
        self.forks = forks
        # Unguarded arcs also follow failures (spec.on_error: continue).
        self.always = always

    def entry(self, choices: list[Choice], origin: str = "", *, flow: bool = False) -> FragmentEntry | None:
        if not choices:
            return None
        forks = self.forks or any(len(_parallel(choice)) > 1 for choice in choices)
        items: list[Item] = []
        for position, choice in enumerate(choices):
            earlier = [other for other in choices[:position] if other.guard.overlaps(choice.guard)] if forks else []
            items += [self._arc(choice, target, earlier, forks=forks) for target in choice.targets]
        spec = [FragmentEntry("mode", Literal("inclusive"))] if forks else []
        if self.always and any(choice.when is None for choice in choices):
            spec.append(FragmentEntry("unguarded", Literal("always")))
        entries = [FragmentEntry("spec", Mapped(tuple(spec), flow=True))] if spec else []
        entries.append(FragmentEntry("arcs", ListFragment(tuple(items), flow=flow)))
        return FragmentEntry("next", Mapped(tuple(entries), flow=flow), origin)

    def _arc(self, choice: Choice, target: ArcTarget, earlier: list[Choice], *, forks: bool) -> Item:
        parts = [choice.when] if choice.when else []
        # The arc before it covers the opposite case.
        last = target.when is not None and target.otherwise and not forks
        negated = [other.when for other in earlier if other.when]
        if not parts and not self.always and (negated or (target.when and not last)):
            # An arc without a guard does not match failures. With a guard it would, so the condition is added
            # (ROUTE-05).
            parts.append("event.name != 'step.failed'")
        if target.when is not None and not last:
            parts.append(f"not ({target.when})" if target.otherwise else target.when)
        parts += [f"not ({when})" for when in negated]
        entries = [FragmentEntry("step", literal(target.step))]
        if parts:
            entries.append(FragmentEntry("when", literal(template(joined(parts)))))
        entries += _args(choice.copier, target)
        if target.writes:
            entries.append(FragmentEntry("set_ctx", Mapped(target.writes, flow=True)))
        if target.options:
            entries.append(FragmentEntry("spec", Mapped(target.options, flow=True)))
        return Item(Mapped(tuple(entries), flow=len(entries) == 1 or target.origin == ""), target.origin)


def _args(copier: Copier, target: ArcTarget) -> list[FragmentEntry]:
    if target.extra:
        return [FragmentEntry("args", Mapped(target.extra, flow=True))]
    if target.args is None:
        return []
    values = tuple(copier.renamed_entries(target.args))
    return [FragmentEntry("args", Mapped(values, flow=True))]


def _parallel(choice: Choice) -> list[ArcTarget]:
    """Targets that are taken together; those of a computed target exclude each other."""
    return [target for target in choice.targets if target.when is None]


# Steps of their own: the tasks of a rule before its transition, between the old step and its target (MIG-03).

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
        # set_ctx of a step applies to success only, so it cannot serve a transition; and it sees no results of tasks.
        in_pipeline = parts.transition is None or _sets_read_tasks(parts)
        if written and in_pipeline:
            tasks.append(setting_task("set_vars", Mapped(tuple(written.values()))))
        if parts.transition is None:
            tasks.append(failing_task("fail_again", "args.error"))
        if parts.transition is not None and not guard.waits and _leads_to_end(parts.transition.targets):
            # This task returns the result of the execution (O-08).
            tasks.append(keeping_task(f"{prefix(name)}_result", self.looks.view))
            self._check_ends(parts)
        if tasks:
            entries.append(FragmentEntry("tool", ListFragment(tuple(tasks))))
        if written and not in_pipeline:
            entries.append(FragmentEntry("set_ctx", Mapped(tuple(written.values()), flow=len(written) == 1)))
        onward = [*self._onward_choices(parts, copier), *on_failure]
        router = RouterPieces(self.looks.step, always=False).entry(onward)
        entries += [router] if router is not None else []
        self.notes.changed(parts.rule, f'this rule is now a step of its own, "{name}"')
        return Item(Mapped(tuple(entries)), item_id(parts.rule.node)), ArcTarget(name, extra=tuple(handed))

    def _check_ends(self, parts: RuleParts) -> None:
        """If several tokens end, the result of the execution has one entry for each of their last steps, by name."""
        if self.forks or (parts.transition is not None and len(parts.transition.targets) > 1):
            message = "this rule would be a step of its own, and the result of an execution names the steps it ends at"
            self.notes.differs(parts.rule, message, "let the step lead on first, and do this in a step after it")

    def _onward_choices(self, parts: RuleParts, copier: Copier) -> list[Choice]:
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


def _sets_read_tasks(parts: RuleParts) -> bool:
    """Whether what the rule sets is made of the results of its tasks."""
    names = {task.name for task in parts.tasks}
    texts = template_texts([one.values for one in parts.sets])
    return any(path[0] in names for text in texts for path in paths(text))
