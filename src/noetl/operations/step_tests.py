"""Step tests: an execution in which one step of a playbook runs alone, with new inputs or those of an earlier run.

The net is that of the playbook without the arcs of the step, so that nothing downstream runs. Its templates can still
read results of other steps, from the inputs or from the earlier run. Path and label mark the execution as a test: it is
not listed with the runs of the playbook and does not count against its limits.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import InvalidError, ToolError
from noetl.engine.rerun_state import rerun_state
from noetl.engine.scopes import payload_of
from noetl.events.envelope import Event
from noetl.events.executions import CarriedResult, RerunState, WorkflowStarted
from noetl.events.large_values import Load
from noetl.events.outcomes import TaskResult
from noetl.net.net import Net, Transition
from noetl.operations.attempt_shapes import StepTestInputs
from noetl.templates.scope import V2_CASE

PATH_ENDING = "/step-test"
DRAFT, STEP_TEST = "draft", "step-test"  # the kinds of trials: executions that are no runs of a registered playbook
LABEL = "noetl.step-test"  # in the metadata of the execution: the step that is tested
# The largest result that a form shows. A larger one is carried over without being shown.
MOST_BYTES = 256_000


def single_step_net(net: Net, name: str) -> Net:
    """The net in which this step runs alone. InvalidError if it cannot run alone."""
    step = next((transition for transition in net.transitions if transition.name == name), None)
    if step is None:
        known = ", ".join(transition.name for transition in net.transitions[:20])
        raise InvalidError(f'step: this text has no step "{name[:200]}"; its steps are {known}')
    if net.dialect == V2_CASE and step.case is not None:
        raise InvalidError(f'step: the rules of step "{name}" lead to other steps; migrate the text to v10 first')
    if not step.tasks:
        raise InvalidError(f'step: "{name}" runs no tool, so there is nothing to test')
    return msgspec.structs.replace(
        net,
        name=f"{net.name}: {name}",
        path=f"{net.path}{PATH_ENDING}",
        metadata={**net.metadata, "labels": {**(net.metadata.get("labels") or {}), LABEL: name}},
        entry=name,
        trigger=None,
        # A failed test must not send notices.
        notifications=(),
        # No compensation: the carried results belong to another execution, whose work must not be undone.
        executor=msgspec.structs.replace(net.executor, auto_compensate=False),
        transitions=tuple(
            _isolated_step(transition) if transition is step else transition for transition in net.transitions
        ),
    )


def _isolated_step(step: Transition) -> Transition:
    """The step without arcs, joins, limits and waits."""
    return msgspec.structs.replace(
        step,
        router=None,
        join=None,
        admission=None,
        concurrency=None,
        rate=None,
        compensation=None,
        timer=None,
        message=None,
        signal=None,
        human_task=None,
    )


def recorded_state(execution_id: str, trace_id: str, events: list[Event], net: Net, step: str) -> RerunState:
    """The state that the step read when it last ran in that execution. InvalidError if it has not run there."""
    state = rerun_state(execution_id, trace_id, events, net, step)
    if state is None:
        raise InvalidError(f'step: "{step}" has not run in execution {execution_id}')
    return state


def recorded_inputs(state: RerunState, events: list[Event], load: Load) -> tuple[StepTestInputs, list[str]]:
    """The recorded state as inputs of a form, and the steps whose results are too large for it or deleted."""
    results: dict[str, Any] = {}
    hidden: list[str] = []
    for carried in state.results:
        try:
            value = payload_of(carried.result, load)
        except ToolError:
            hidden.append(carried.step)
            continue
        if len(msgspec.json.encode(value)) > MOST_BYTES:
            hidden.append(carried.step)
        else:
            results[carried.step] = value
    started = next((carried.payload for carried in events if isinstance(carried.payload, WorkflowStarted)), None)
    workload = started.workload if started is not None else {}
    return StepTestInputs(args=state.args, ctx=state.ctx, workload=workload, results=results), hidden


def merged_inputs(recorded: StepTestInputs, overrides: StepTestInputs) -> StepTestInputs:
    """The recorded inputs with `overrides` over them, name by name. Results are not merged: those without an override
    are carried over as they were recorded."""
    parts = ("args", "ctx", "workload")
    return msgspec.structs.replace(
        overrides, **{part: {**getattr(recorded, part), **getattr(overrides, part)} for part in parts}
    )


def initial_test_state(step: str, inputs: StepTestInputs, recorded: RerunState | None, load: Load) -> RerunState:
    """The state in which the test begins. A recorded result stays a reference where the form returns it unchanged or
    did not show it."""
    recorded_results = {carried.step: carried.result for carried in recorded.results} if recorded is not None else {}
    results = {
        **recorded_results,
        **{name: _recorded_or_new(recorded_results.get(name), value, load) for name, value in inputs.results.items()},
    }
    return RerunState(
        execution_id=recorded.execution_id if recorded is not None else "",
        step=step,
        at=recorded.at if recorded is not None else 0,
        args=inputs.args,
        ctx=inputs.ctx,
        results=tuple(CarriedResult(step=name, result=result) for name, result in results.items()),
    )


def _recorded_or_new(recorded: TaskResult | None, value: Any, load: Load) -> TaskResult:
    if recorded is not None and payload_of(recorded, load) == value:
        return recorded
    # A list in place of the results of a loop is read as those are.
    of_loop = recorded is not None and recorded.of_loop and isinstance(value, list)
    return TaskResult(result=value, of_loop=of_loop)
