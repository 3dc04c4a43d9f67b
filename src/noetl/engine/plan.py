"""Plan: a net with its index, so that deciding never searches. Built once per net and kept by its hash."""

from __future__ import annotations

from noetl.net.encoding import content_hash, to_json
from noetl.net.net import Net, Transition
from noetl.net.task import Directive, Task
from noetl.pipeline.noop import KIND as NOOP
from noetl.pipeline.progress import MAX_TASK_RUNS
from noetl.pipeline.surroundings import Load, nothing_stored
from noetl.templates.authored import Authored

MAX_STEP_RUNS = 10_000  # default of executor.spec.policy.limits.max_step_runs (O-33)


class Plan:
    """What deciding asks of a net. `load` fetches stored results for templates that read them (RES-06)."""

    def __init__(self, net: Net, *, load: Load = nothing_stored) -> None:
        self.net = net
        self.load = load
        self.net_hash = content_hash(net)
        self._steps = {step.name: step for step in net.transitions}
        self._in_place = {step.name: _decided_in_place(step) for step in net.transitions}
        self.max_step_runs = int(net.executor.limits.get("max_step_runs", MAX_STEP_RUNS))
        self.max_task_runs = int(net.executor.limits.get("max_task_runs", MAX_TASK_RUNS))

    def step(self, name: str) -> Transition:
        return self._steps[name]

    def in_place(self, name: str) -> bool:
        """Whether the server decides this step itself, without an order (PERFORMANCE §2)."""
        return self._in_place[name]

    def net_json(self) -> bytes:
        return to_json(self.net)


def _decided_in_place(step: Transition) -> bool:
    return all(_needs_no_worker(task) for task in step.tasks)


def _needs_no_worker(task: Task) -> bool:
    if task.kind != NOOP or _placed_at_worker(task.spec):
        return False
    policy = task.policy
    if policy is None:
        return True
    retries = any(rule.do is Directive.RETRY for rule in policy.rules)
    hooks = policy.before or policy.after or policy.finally_
    return not retries and not hooks


def _placed_at_worker(spec: Authored) -> bool:
    return isinstance(spec.data, dict) and spec.data.get("place") == "worker"
