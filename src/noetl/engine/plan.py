"""Plan: a net prepared for running, with tables so that deciding never searches. Built once per net and cached by the
net's hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.engine.pipeline.payloads import Keep, fits, inline_bytes, max_payload_bytes, no_results_store
from noetl.engine.pipeline.preparation import NOOP
from noetl.engine.pipeline.progress import MAX_TASK_RUNS
from noetl.engine.pipeline.scopes import Load, no_stored_results
from noetl.engine.v2_case.port import has_rules, outside_rules
from noetl.events.outcomes import Reference
from noetl.net.names import known_names
from noetl.net.net import Net, Transition, content_hash, tasks_of, to_json
from noetl.net.secret_reads import keychain_reads
from noetl.net.task import Directive, Task
from noetl.templates.values import Authored

_COLLECTIONS = 4  # stored collections of loops that a plan keeps in memory

# `step.results`, `step._outcome.results` or `step['results']` in a template, whose quotes JSON may have escaped
_RESULTS_READ = re.compile(r"""\b(\w+?)(?:\._outcome)?(?:\.results\b|\[\\?['"]results\\?['"]\])""")
MAX_STEP_RUNS = 10_000  # default of executor.spec.policy.limits.max_step_runs (O-33)


class Plan:
    """A net and what follows from it alone. `load` reads a stored result for a template (RES-06); `keep` stores a value
    that is too large for an event."""

    def __init__(self, net: Net, *, load: Load = no_stored_results, keep: Keep = no_results_store) -> None:
        self.net = net
        self.load, self.keep = load, keep
        # By checksum. A loop reads its collection for every range that it hands out.
        self._collections: dict[str, Any] = {}
        self._outside: dict[str, frozenset[int]] = {}
        self._reachable: dict[str, frozenset[str]] = {}
        self._net_json: bytes | None = None
        # Computed on first use: it searches the whole net as text.
        self._keeping: frozenset[str] | None = None
        # Results that other modules compute once per net and need at every step, under keys of their own.
        self.memo: dict[tuple[str, ...], Any] = {}
        self.names = known_names(net)
        self.net_hash = content_hash(net)
        self._steps = {step.name: step for step in net.transitions}
        self.step_names = frozenset(self._steps)
        self._side_runs = {step.name: leaves_side_runs(step) for step in net.transitions}
        self._case_steps = frozenset(step.name for step in net.transitions if has_rules(step))
        # These tables are read several times for every token, and follow from the net alone.
        self._in_place = {step.name: self._decided_in_place(step) for step in net.transitions}
        self._admitted_plainly = {step.name: self._is_plain(step) for step in net.transitions}
        self.attributes = {step.name: labels for step in net.transitions if (labels := _attributes(step))}
        usual_lease = net.executor.spec.get("lease") or net.executor.limits.get("lease")
        self._leases = {step.name: written for step in net.transitions if (written := step.lease or usual_lease)}
        self.max_payload_bytes, self.inline_bytes = max_payload_bytes(net), inline_bytes(net)
        self.max_step_runs = int(net.executor.limits.get("max_step_runs", MAX_STEP_RUNS))
        self.max_task_runs = int(net.executor.limits.get("max_task_runs", MAX_TASK_RUNS))

    def step(self, name: str) -> Transition:
        return self._steps[name]

    def has_step(self, name: str) -> bool:
        return name in self._steps

    def in_place(self, name: str) -> bool:
        """Whether the server decides this step itself, without an order (performance.md §2)."""
        return self._in_place[name]

    def lease(self, name: str) -> dict[str, Any] | None:
        """The `lease` settings of a step, else those of the executor; None in most nets."""
        return self._leases.get(name)

    def has_rules(self, name: str) -> bool:
        """Whether the step's runs are case runs."""
        return name in self._case_steps

    def admits_plainly(self, name: str) -> bool:
        """Whether admission evaluates and counts nothing for this step: a token is scheduled as it is."""
        return self._admitted_plainly[name]

    def _is_plain(self, step: Transition) -> bool:
        limits = step.quotas or step.concurrency or step.rate or step.lifecycle or step.timeout
        templates = step.admission or step.args or step.pool or self.net.executor.pool or step.loop
        return not limits and not templates

    def _decided_in_place(self, step: Transition) -> bool:
        return step.name not in self._case_steps and all(_needs_no_worker(task) for task in step.tasks)

    def leaves_side_runs(self, name: str) -> bool:
        """Whether a run of this step may leave something to undo, or an asynchronous task."""
        return self._side_runs[name]

    def reachable(self, name: str) -> frozenset[str]:
        """The steps that a token at step `name` can still reach."""
        steps = self._reachable.get(name)
        if steps is None:
            steps = self._reachable[name] = _reachable(self._steps, name)
        return steps

    def keeps_tasks(self, name: str) -> bool:
        """Whether a template of the net reads the results of this step's tasks: `step.results.TASK` (TPL-07)."""
        if self._keeping is None:
            self._keeping = frozenset(_RESULTS_READ.findall(self.net_json().decode()))
        return name in self._keeping

    def outside_rules(self, name: str) -> frozenset[int]:
        """The case rules of a step that ask for events which only come from outside (V2C-13)."""
        rules = self._outside.get(name)
        if rules is None:
            case = self._steps[name].case
            emitted = frozenset(emit.name for step in self._steps.values() for emit in step.emit)
            rules = self._outside[name] = outside_rules(case, emitted) if case is not None else frozenset()
        return rules

    def fits(self, value: Any) -> bool:
        """Whether a value that the server computes may be stored inside an event (RES-03)."""
        return fits(value, self.max_payload_bytes)

    def collection(self, reference: Reference) -> Any:
        """The stored collection of a loop. The last few are cached."""
        items = self._collections.get(reference.checksum)
        if items is None:
            while len(self._collections) >= _COLLECTIONS:
                del self._collections[next(iter(self._collections))]
            items = self._collections[reference.checksum] = self.load(reference)
        return items

    def net_json(self) -> bytes:
        if self._net_json is None:
            self._net_json = to_json(self.net)
        return self._net_json


def _reachable(steps: Mapping[str, Transition], name: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for target in _targets(steps, steps[waiting.pop()]):
            if target not in seen and target in steps:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def _targets(steps: Mapping[str, Transition], step: Transition) -> Iterator[str]:
    """The steps that tokens of `step` may go to. A computed target without known candidates may be any step (C-27)."""
    rules = step.case.rules if step.case else ()
    arcs = [arc for rule in rules for action in rule.actions for arc in action.transition]
    for arc in (*arcs, *(step.router.arcs if step.router else ())):
        yield from (arc.target,) if arc.target else arc.candidates or steps
    if step.timeout is not None and step.timeout.alternative:
        yield step.timeout.alternative


def _attributes(step: Transition) -> dict[str, Any]:
    """The tracing attributes of a step, unless tracing is turned off (ADV-07)."""
    return (step.tracing.get("attributes") or {}) if step.tracing.get("enabled", True) else {}


def _needs_no_worker(task: Task) -> bool:
    if task.kind != NOOP or _placed_at_worker(task.spec) or keychain_reads(task):
        return False
    policy = task.policy
    if policy is None:
        return True
    # A retry waits and a hook runs a tool. The server decides without waiting, so both need a worker.
    retries = any(rule.do is Directive.RETRY for rule in policy.rules)
    hooks = policy.before or policy.after or policy.finally_
    return not retries and not hooks


def _placed_at_worker(spec: Authored) -> bool:
    """Whether the author placed the task at a worker, or its result has a schema, which only workers check (RES-07)."""
    return isinstance(spec.data, dict) and (spec.data.get("place") == "worker" or "result_schema" in spec.data)


# Steps whose end may leave more work: something to undo, or an asynchronous task.
PLAYBOOK = "playbook"  # the kind whose child may have something to undo


def leaves_side_runs(step: Transition) -> bool:
    return step.compensation is not None or any(task.kind == PLAYBOOK or _is_async(task) for task in tasks_of(step))


def _is_async(task: Task) -> bool:
    return isinstance(task.spec.data, dict) and bool(task.spec.data.get("async"))
