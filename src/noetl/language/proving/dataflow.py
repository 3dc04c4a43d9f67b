"""Data flow: values read where no path can have set them before (beyond.md §2).

This is a may-analysis: a value counts as set when any run, on any path or beside it, may have set it. So a value that
is reported is undefined on every path. Reads with a default are exempt, and a computed key silences its whole
namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from noetl.language.proving import variable_access
from noetl.language.proving.arcs import args_to_anywhere, edges
from noetl.language.proving.graph import Graph
from noetl.language.proving.pipelines import reached_from, task_hops
from noetl.language.proving.variable_access import ReadKeys
from noetl.language.proving.witness import PlacedFinding
from noetl.net.debug import arc_address, case_address, part_address, rule_address, step_address, task_address
from noetl.net.net import Loop, Net, Transition
from noetl.net.task import Task
from noetl.templates.logic import GuardReference
from noetl.templates.values import Authored


def used_before_set(net: Net, graph: Graph) -> list[PlacedFinding]:
    """Reads of `ctx`, `args` and step results that are undefined on every path."""
    flow = _Flow(net, graph)
    reached = graph.reachable(graph.entry)
    found: dict[tuple[str, str], PlacedFinding] = {}
    for index, step in enumerate(net.transitions):
        if index not in reached:
            continue
        for site in sites(step):
            for finding in flow.check(step, index, site):
                found.setdefault((site.address, finding.message), finding)
    return list(found.values())


class _Flow:
    def __init__(self, net: Net, graph: Graph) -> None:
        self._net = net
        self._graph = graph
        self._index = {step.name: at for at, step in enumerate(net.transitions)}
        self._writers: dict[str, list[int]] = {}
        self._everywhere = variable_access.keys(net.ctx)  # there from the beginning
        for at, step in enumerate(net.transitions):
            written = variable_access.step_ctx(step)
            # Handlers and compensations may write at any time, and a computed key may be any key.
            self._everywhere |= variable_access.beside_ctx(step) | ReadKeys(unknown=written.unknown)
            for key in written.names:
                self._writers.setdefault(key, []).append(at)
        self._passed: dict[str, ReadKeys] = {}
        self._anywhere = variable_access.keys(*args_to_anywhere(net))
        ways = edges(net)
        self._arriving = Counter(edge.target for edge in ways)
        for edge in ways:
            self._passed[edge.target] = self._passed_to(edge.target) | variable_access.keys(edge.args)
        self._after: dict[int, set[int]] = {}
        self._forks = [step.index for step in graph.steps if step.forks]

    def check(self, step: Transition, index: int, site: ReadSite) -> Iterator[PlacedFinding]:
        for read in site.reads:
            if read.defaulted:
                continue
            key = str(read.path[0]) if read.path and isinstance(read.path[0], str) else ""
            if read.root in ("ctx", "vars") and key:
                yield from self._ctx(step, index, site, read.root, key)
            elif read.root == "args" and key and not site.own_args:
                yield from self._args(step, site, key)
            elif read.root in self._index:
                yield from self._result(step, index, site, read)

    def _ctx(self, step: Transition, index: int, site: ReadSite, root: str, key: str) -> Iterator[PlacedFinding]:
        if key in self._everywhere or key in self._own_keys(step, site):
            return
        writers = self._writers.get(key, [])
        if any(self._may_precede(at, index) for at in writers):
            return
        hint = f"set it with set_ctx in an earlier step, or give it a default: {{{{ {root}.{key} | default(…) }}}}"
        # If some step sets this key, the author has not misspelt it but reads it too early.
        near = [] if writers else get_close_matches(key, sorted(self._writers), 1, 0.75)
        if near:
            hint = f'did you mean "{root}.{near[0]}"?'
        where = "only later steps set it" if writers else "nothing sets it"
        yield _finding(site, f'"{root}.{key}" is read here, but {where}', hint)

    def _own_keys(self, step: Transition, site: ReadSite) -> ReadKeys:
        """The names that the same step run may have set before this place."""
        if site.position == BEFORE:
            return ReadKeys()
        # In a loop an earlier iteration may have run every task.
        if site.position == AFTER or step.loop is not None:
            return variable_access.step_ctx(step)
        hops = task_hops(step)
        own = variable_access.ending_ctx(step) if step.case is not None else ReadKeys()
        for at, task in enumerate(step.tasks):
            if site.position in reached_from(hops, at) or (at == site.position and _retries(step, at)):
                own |= variable_access.task_ctx(task)
        return own

    def _passed_to(self, step: str) -> ReadKeys:
        return self._passed.get(step, self._anywhere)

    def _args(self, step: Transition, site: ReadSite, key: str) -> Iterator[PlacedFinding]:
        if key in self._passed_to(step.name) or key in variable_access.keys(step.args):
            return
        message = f'"args.{key}" is read here, but no arc passes "{key}" to step "{step.name}"'
        hint = f"pass it in the args of an arc that leads here, or give it a default: {{{{ args.{key} | default(…) }}}}"
        yield _finding(site, message, hint)

    def _result(self, step: Transition, index: int, site: ReadSite, read: GuardReference) -> Iterator[PlacedFinding]:
        name = read.root
        if self._is_something_else(step, name):
            return
        source = self._index[name]
        done = source == index and site.position == AFTER
        if done or self._may_precede(source, index):
            return
        message = f'the result of step "{name}" is read here, but it cannot have run before'
        hint = "read it in a step that comes after it" if source != index else "read the task's result by its own name"
        yield _finding(site, message, hint)

    def _is_something_else(self, step: Transition, name: str) -> bool:
        """Whether the name of a step means something else at this place, or may also be a value of `args`, `ctx` or
        `workload` (TPL-06)."""
        loop, names = step.loop, {task.name for task in step.tasks}
        while loop is not None:
            names.add(loop.iterator)
            loop = loop.inner
        elsewhere = name in self._net.workload or name in self._writers or name in self._passed_to(step.name)
        return name in names or elsewhere or self._everywhere.unknown

    def _may_precede(self, source: int, target: int) -> bool:
        """Whether a run of `source` may end before one of `target` begins: ahead of it, or beside it in a fork."""
        if target in self._following(source):
            return True
        # Its own earlier run: only if a second token can come to it.
        if source == target and self._arriving[self._graph.name(target)] < 2:
            return False
        return any(source in self._following(f) and target in self._following(f) for f in self._forks)

    def _following(self, index: int) -> set[int]:
        if index not in self._after:
            self._after[index] = self._graph.reachable(*self._graph[index].successors)
        return self._after[index]


def _retries(step: Transition, at: int) -> bool:
    policy = step.tasks[at].policy
    return policy is not None and any(rule.retry is not None for rule in policy.rules)


def _finding(site: ReadSite, message: str, hint: str) -> PlacedFinding:
    return PlacedFinding("W_USED_BEFORE_SET", (site.address,), message, hint)


# Sites: the places of a step where templates read names, and how far the run has come there.

BEFORE = -1  # before the first task
# Greater than any position of a task, so that positions compare by how far a run has come.
AFTER = 1_000_000  # when the run has ended


class ReadSite(msgspec.Struct, frozen=True):
    """One place of a step where templates read."""

    step: str
    address: str
    # Position of the reading task in its pipeline, or BEFORE or AFTER the whole pipeline.
    position: int
    reads: tuple[GuardReference, ...]
    # `args` refers to the task's arguments, not to those of the token.
    own_args: bool = False


def sites(step: Transition) -> Iterator[ReadSite]:
    """Every place of `step` that reads something, in the order a run comes to it."""
    within = (site for at, task in enumerate(step.tasks) for site in task_sites(step.name, task, at))
    for site in (*_sites_before(step), *within, *_sites_after(step)):
        if site.reads:
            yield site


def _sites_before(step: Transition) -> Iterator[ReadSite]:
    name = step.name
    rules = step.admission.rules if step.admission else ()
    admitted = variable_access.references(*(rule.when for rule in rules), *(rule.set_token for rule in rules))
    yield ReadSite(name, part_address(name, "admission"), BEFORE, admitted)
    yield ReadSite(name, part_address(name, "args"), BEFORE, variable_access.references(step.args))
    loop: Loop | None = step.loop
    while loop is not None:
        yield ReadSite(
            name, part_address(name, "loop"), BEFORE, variable_access.references(loop.items, loop.max_in_flight)
        )
        loop = loop.inner


def task_sites(step: str, task: Task, position: int) -> Iterator[ReadSite]:
    """The inputs of a task and the rules of its policy."""
    own = task.args is not None
    address = task_address(step, task.name)
    if task.args is not None:
        yield ReadSite(step, address, position, variable_access.references(task.args))
    yield ReadSite(step, address, position, variable_access.references(task.inputs, task.spec), own)
    for index, rule in enumerate(task.policy.rules if task.policy else ()):
        values: list[Authored | None] = [rule.when, rule.error]
        if rule.retry is not None:
            values += [rule.retry.attempts, rule.retry.delay, rule.retry.max_delay]
        if rule.mutations is not None:
            m = rule.mutations
            values += [m.set_iter, m.set_ctx, m.set_vars, m.set_shared, m.set_prev]
        yield ReadSite(step, rule_address(step, task.name, index), position, variable_access.references(*values), own)


def _sites_after(step: Transition) -> Iterator[ReadSite]:
    name = step.name
    yield from _waits(step)
    if step.sink is not None:
        yield ReadSite(name, part_address(name, "sink"), AFTER, variable_access.references(step.sink.inputs), True)
    yield ReadSite(name, part_address(name, "set_ctx"), AFTER, variable_access.references(step.set_ctx))
    for at, rule in enumerate(step.case.rules if step.case else ()):
        values: list[Authored | None] = [rule.when]
        for action in rule.actions:
            values += [action.set_ctx, action.guard, action.delay, action.task.inputs if action.task else None]
            values += [value for arc in action.transition for value in (arc.args, arc.computed)]
        yield ReadSite(name, case_address(name, at), AFTER, variable_access.references(*values))
    for emit in step.emit:
        yield ReadSite(name, step_address(name), AFTER, variable_access.references(emit.when, emit.data))
    for at, arc in enumerate(step.router.arcs if step.router else ()):
        read = variable_access.references(arc.when, arc.args, arc.set_ctx, arc.computed, arc.delay)
        yield ReadSite(name, arc_address(name, at), AFTER, read)


def _waits(step: Transition) -> Iterator[ReadSite]:
    parts: dict[str, tuple[Authored | None, ...]] = {}
    if step.timer is not None:
        parts["timer"] = (step.timer.duration, step.timer.until)
    if step.message is not None:
        parts["message"] = (step.message.name, step.message.correlation, step.message.timeout)
    if step.signal is not None:
        parts["signal"] = (step.signal.name,)
    if step.human_task is not None:
        task = step.human_task
        parts["human_task"] = (task.title, task.description, task.data, task.role, task.user, task.due_date)
    for part, values in parts.items():
        yield ReadSite(step.name, part_address(step.name, part), AFTER, variable_access.references(*values))
