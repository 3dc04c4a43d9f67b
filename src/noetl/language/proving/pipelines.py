"""Pipelines: tasks that no jump or fall-through reaches, and cycles of jumps without a reason to end (ADV-06, PIPE-03).

Policies decide like routers: a rule is tried only if the rules before it did not match. A retry is bounded by its
attempts and so is never a cycle here.
"""

from __future__ import annotations

import msgspec

from noetl.language.proving import guards
from noetl.language.proving.graph import closure, cycles
from noetl.language.proving.variable_access import Moving, ReadKeys, task_ctx, task_iter
from noetl.language.proving.witness import CycleReason, PlacedFinding
from noetl.net.debug import rule_address, task_address
from noetl.net.net import Net, Transition
from noetl.net.task import Directive, Rule, Task
from noetl.templates.values import Authored

_SUCCESS = Authored("{{ outcome.status == 'success' }}")


class Hop(msgspec.Struct, frozen=True):
    """From one task to another, or past the last one: out of the pipeline."""

    source: int
    target: int
    address: str
    # The guard of the rule with this directive.
    own: Authored | None = None
    # Guards of the rules before it, none of which matched.
    before: tuple[Authored, ...] = ()


def pipeline_findings(net: Net) -> tuple[list[PlacedFinding], list[CycleReason]]:
    """Mistakes in the control flow inside the steps of `net`, and the reasons why their cycles end."""
    found: list[PlacedFinding] = []
    reasons: list[CycleReason] = []
    for step in net.transitions:
        if len(step.tasks) > 1 or any(task.policy for task in step.tasks):
            hops = task_hops(step)
            found += _unreachable_tasks(step, hops)
            more, why = _cycles(step, _all_hops(step), frozenset(net.workload))
            found += more
            reasons += why
    return found, reasons


def task_hops(step: Transition) -> list[Hop]:
    """How control moves between the tasks of a step, by position."""
    return [hop for hop in _all_hops(step) if hop.target < len(step.tasks)]


def _all_hops(step: Transition) -> list[Hop]:
    """All hops of a step, with the exits: those lead to the position past the last task."""
    positions = {task.name: at for at, task in enumerate(step.tasks)}
    hops: list[Hop] = []
    for at, task in enumerate(step.tasks):
        before: list[Authored] = []
        decided = False
        for index, rule in enumerate(task.policy.rules if task.policy else ()):
            truth = True if rule.when is None else guards.truth(rule.when, None)
            if truth is False:
                continue
            address = rule_address(step.name, task.name, index)
            hops += [Hop(at, target, address, rule.when, tuple(before)) for target in _targets(rule, at, positions)]
            if truth is True:
                decided = True
                break
            if rule.when is not None:
                before.append(rule.when)
        if not decided:
            hops.append(Hop(at, at + 1, task_address(step.name, task.name), None, tuple(before)))
    return hops


def _targets(rule: Rule, at: int, positions: dict[str, int]) -> list[int]:
    match rule.do:
        case Directive.JUMP:
            return [positions[rule.to]] if rule.to in positions else []
        case Directive.CONTINUE:
            return [at + 1]
        case Directive.RETRY:
            goes_on = rule.retry is not None and rule.retry.on_exhausted is Directive.CONTINUE
            # The last position is the end of the pipeline.
            return [at + 1 if goes_on else len(positions)]
        case _:
            return [len(positions)]


def reached_from(hops: list[Hop], start: int) -> set[int]:
    """Tasks that run after `start` on some way through the pipeline; itself only if control comes back."""

    def following(at: int) -> list[int]:
        return [hop.target for hop in hops if hop.source == at]

    return closure(following(start), following)


def _unreachable_tasks(step: Transition, hops: list[Hop]) -> list[PlacedFinding]:
    reached = {0} | reached_from(hops, 0)
    found = []
    for at, task in enumerate(step.tasks):
        if at not in reached and task.generated is None:
            message = f'task "{task.name}" can never run: no task before it goes on to it, and no jump leads to it'
            where = (task_address(step.name, task.name),)
            found.append(PlacedFinding("W_UNREACHABLE", where, message, "jump to it, or remove it"))
    return found


def _cycles(
    step: Transition, hops: list[Hop], workload: frozenset[str]
) -> tuple[list[PlacedFinding], list[CycleReason]]:
    positions = range(len(step.tasks))
    reached = {0} | reached_from(hops, 0)
    found: list[PlacedFinding] = []
    reasons: list[CycleReason] = []
    ways = {at: [h.target for h in hops if h.source == at and h.target in positions] for at in positions}
    for part in cycles({at: targets for at, targets in ways.items() if at in reached}):
        inside = set(part)
        around = [hop for hop in hops if hop.source in inside and hop.target in inside]
        moving = _moving([step.tasks[at] for at in part], workload)
        # A cycle that is left only after an error has no intended end.
        leaving = {hop.source for hop in hops if hop.target not in inside and _on_success(hop.own)}
        why = {hop: _reason(hop, moving, hop.source in leaving) for hop in around}
        endless = cycles({at: [h.target for h in around if h.source == at and not why[h]] for at in part})
        found += [_endless(step, tasks, [h for h in around if not why[h]]) for tasks in endless]
        if not endless:
            names = tuple(f"{step.name}.{step.tasks[at].name}" for at in part)
            reasons.append(CycleReason(names, "; ".join(dict.fromkeys(filter(None, why.values())))))
    return found, reasons


def _moving(tasks: list[Task], workload: frozenset[str]) -> Moving:
    ctx, iteration = ReadKeys(), ReadKeys()
    for task in tasks:
        ctx |= task_ctx(task)
        iteration |= task_iter(task)
    names = frozenset(task.name for task in tasks)
    return Moving(ctx=ctx, iteration=iteration, results=names, workload=workload)


def _reason(hop: Hop, moving: Moving, leaves: bool) -> str | None:
    """Why `hop` will not be taken forever. A rule that leaves only on errors does not count."""
    if not _on_success(hop.own):
        return "goes round only after an error"
    return moving.first_reason([hop.own, *filter(_on_success, hop.before)]) if leaves else None


def _on_success(guard: Authored | None) -> bool:
    return guard is None or guards.possible([guard, _SUCCESS], [], None)


def _endless(step: Transition, tasks: list[int], around: list[Hop]) -> PlacedFinding:
    names = [step.tasks[at].name for at in tasks]
    back = next(hop for hop in around if hop.source in tasks and hop.target in tasks and hop.target <= hop.source)
    message = f"nothing was found that ends the jump cycle {' -> '.join([*names, names[0]])}"
    hint = "leave it by a rule that reads what each round changes (set_iter, outcome), or use do: retry with attempts"
    return PlacedFinding("W_CYCLE_UNBOUNDED", (back.address,), message, hint)
