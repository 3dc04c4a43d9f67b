"""Tasks, lowered: inputs apart from what is never rendered, the effective spec, the policy, the repetitions."""

from __future__ import annotations

import json
from typing import Any

from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.overlay import Layers
from noetl.language.compiling.lowering.policies import lower_policy
from noetl.language.compiling.lowering.values import authored
from noetl.language.reading.nodes import Mapping, data, scalars
from noetl.language.reading.numbers import is_templated
from noetl.language.reading.playbook import Dialect, RetrySyntax, StepSyntax, Sugar, TaskSyntax
from noetl.net.debug import pipeline_address
from noetl.net.task import Collect, Directive, Repeat
from noetl.net.task import Task as NetTask
from noetl.templates.authored import Authored


class TaskLowering:
    """Lowers the tasks of one step, which share its layers of spec."""

    def __init__(self, lowering: Lowering, step: StepSyntax) -> None:
        self._lowering, self._step = lowering, step
        playbook = lowering.playbook
        self._layers = Layers(playbook.executor, step, playbook.dialect.rules)

    def pipeline(self, items: tuple[TaskSyntax | Sugar, ...], part: str = "") -> tuple[NetTask, ...]:
        """A list of tasks; `part` names the place within the step, nothing for its own `tool` list."""
        base = pipeline_address(self._step.name, part)
        outer = self._step.args if not part and self._lowering.playbook.dialect is Dialect.V2_CASE else None
        return tuple(self.task(item, f"{base}/{item.name}", outer) for item in items if isinstance(item, TaskSyntax))

    def task(self, task: TaskSyntax, address: str, outer: Mapping | None = None) -> NetTask:
        """`outer` are the step's args, which a v2-case step hands to its tool under the tool's own (V2C-03)."""
        self._lowering.trace_task(address, task)
        kind = self._lowering.kinds.get(task.kind)
        known = {each.name: each for each in kind.inputs} if kind else {}
        verbatim = {key for key in task.inputs if key in known and known[key].verbatim}
        inputs = {key: data(node) for key, node in task.inputs.items() if key not in verbatim}
        # A noop would return them as its result, which nobody asked for.
        if outer is not None and "args" in known and task.kind != "noop" and isinstance(inputs.get("args", {}), dict):
            inputs["args"] = {**self._handed(outer, task), **inputs.get("args", {})}
        return NetTask(
            name=task.name or "",
            kind=task.kind,
            inputs=Authored(inputs),
            verbatim={key: data(task.inputs[key]) for key in task.inputs if key in verbatim},
            spec=Authored(self._layers.effective(task, kind)),
            policy=lower_policy(self._lowering, task, address, self._hooks),
            args=authored(task.bound[0]) if task.bound else None,
            inner_args=tuple(Authored(data(each)) for each in task.bound[1:]),
            generated=task.generated,
            origin=self._lowering.debug[address].path if task.generated else None,
            submits_job=kind is not None and (inputs.get("op") or "") in kind.job_ops,
        )

    def _handed(self, outer: Mapping, task: TaskSyntax) -> dict[str, Any]:
        """The step's args as its run has them: the token's lie over them, as in every dialect (design.md §8). What may
        read an iteration stays as it is written; and a workbook task reads the args of its reference as `args`."""
        if task.bound:
            return dict(data(outer))
        in_loop = self._step.loop is not None
        return {
            key: data(node)
            if in_loop and any(map(is_templated, scalars(node)))
            else f"{{{{ args[{json.dumps(key)}] }}}}"
            for key, node in outer.values.items()
        }

    def _hooks(self, tasks: tuple[TaskSyntax, ...], address: str) -> tuple[NetTask, ...]:
        return tuple(self.task(task, f"{address}/{task.name}") for task in tasks)

    def repeats(self, retries: tuple[RetrySyntax, ...], part: str) -> tuple[Repeat, ...]:
        """The retry policies of a v2-case call (V2C-16…19)."""
        return tuple(self._repeat(retry, f"{part}/{index}") for index, retry in enumerate(retries))

    def _repeat(self, retry: RetrySyntax, part: str) -> Repeat:
        base = pipeline_address(self._step.name, part)
        collect = retry.collect
        return Repeat(
            when=authored(retry.when),
            max_attempts=authored(retry.max_attempts),
            initial_delay=authored(retry.initial_delay),
            multiplier=authored(retry.multiplier),
            max_delay=authored(retry.max_delay),
            mode=retry.mode or ("fixed" if retry.multiplier is None else "exponential"),
            jitter=authored(retry.jitter),
            on_exhausted=Directive(retry.on_exhausted) if retry.on_exhausted else Directive.FAIL,
            next_call=authored(retry.next_call),
            collect=Collect(path=collect.path_text, into=collect.into, strategy=collect.strategy) if collect else None,
            sink=self.task(retry.sink, f"{base}/{retry.sink.name}") if retry.sink else None,
        )
