"""Resource deadlock: a limit that is held while waiting for something that needs the same limit.

Looked for, and nothing else: (1) a playbook with a concurrency limit that calls itself and waits for the child;
(2) a step that holds a slot while it waits for an event which only steps queueing for the same slot emit. A limit
counts when it is a literal number and queues. The slot of a step's limit belongs to one execution, so a child never
waits for that of its parent: without a key it is the step's own, with one it is shared by all steps that have the same
key, and two keys count as the same when they are written the same way. Limits of other playbooks, capacities of pools,
rates and leases are not known to a net and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.source import is_template
from noetl.language.proving import guards
from noetl.language.proving.source_positions import PlacedFinding
from noetl.net.debug import part_address, step_address, task_address
from noetl.net.net import Concurrency, Net, Transition
from noetl.net.task import Task
from noetl.templates.logic import And, Compare, Not, Or, Shape


def resource_findings(net: Net) -> list[PlacedFinding]:
    """Limits of `net` that can wait for themselves."""
    found: list[PlacedFinding] = []
    for step in net.transitions:
        for task in step.tasks:
            if _waits_for_itself(net, task):
                found += _nested(net, step, task)
        found += _held_while_waiting(net, step)
    return found


def _waits_for_itself(net: Net, task: Task) -> bool:
    spec = task.spec.data if isinstance(task.spec.data, dict) else {}
    inputs = task.inputs.data if isinstance(task.inputs.data, dict) else {}
    return task.kind == "playbook" and inputs.get("path") == net.path and not spec.get("async")


def _nested(net: Net, step: Transition, task: Task) -> Iterator[PlacedFinding]:
    where = (task_address(step.name, task.name),)
    if _limits(net.executor.concurrency):
        message = "this playbook calls itself and waits, while its own concurrency limit keeps the child queued"
        yield PlacedFinding(
            "W_RESOURCE_DEADLOCK", where, message, "give the child another key, or call it with async: true"
        )


def _limits(concurrency: Concurrency | None) -> bool:
    """A literal limit that queues. Nesting has no bound, so any number of slots can be used up."""
    return concurrency is not None and concurrency.on_limit == "queue" and not is_template(str(concurrency.limit.data))


def _held_while_waiting(net: Net, step: Transition) -> Iterator[PlacedFinding]:
    if step.case is None or not step.case.on_event or not _only_one(step.concurrency):
        return
    heard = {name for rule in step.case.rules for name in _event_names(guards.shape_of(rule.when))}
    emitters = [other for other in net.transitions if any(emit.name in heard for emit in other.emit)]
    queueing = [other for other in emitters if other is not step and _same_slot(step, other)]
    if emitters and len(queueing) == len(emitters):
        names = " and ".join(f'"{other.name}"' for other in queueing)
        message = f"this step holds the slot that {names} needs, and waits for an event that only {names} emits"
        where = (part_address(step.name, "concurrency"), step_address(step.name))
        yield PlacedFinding("W_RESOURCE_DEADLOCK", where, message, "use another key for the step that waits")


def _only_one(concurrency: Concurrency | None) -> bool:
    return _limits(concurrency) and concurrency is not None and str(concurrency.limit.data) == "1"


def _same_slot(one: Transition, other: Transition) -> bool:
    """Whether two steps share a slot that the one fills: the same key, written the same way (`engine.limits`)."""
    if one.concurrency is None or other.concurrency is None or not _only_one(other.concurrency):
        return False
    return one.concurrency.key is not None and one.concurrency.key == other.concurrency.key


def _event_names(shape: Shape) -> set[str]:
    match shape:
        case And(parts) | Or(parts):
            return set().union(*map(_event_names, parts))
        case Compare("event", ("name",), "==" | "in", values):
            return {str(value) for value in values}
        case Not(part):
            return _event_names(part)
        case _:
            return set()
