"""Testing one step of a text: an execution in which it runs alone, with inputs of one's own or of an earlier run.

The net is that of the text without what follows the step, so that nothing downstream runs; its templates still read the
results of other steps, which are given or carried over. The execution is marked as a test by its path and its label:
neither the runs of the playbook nor its limits count it.
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

LABEL = "noetl.step-test"  # in the metadata of the execution: the step that is tested
MOST_BYTES = 256_000  # of one result that is shown in a form; a larger one is carried over without being shown


def alone_net(net: Net, name: str) -> Net:
    """The net in which this step runs alone. InvalidError where it cannot."""
    step = next((one for one in net.transitions if one.name == name), None)
    if step is None:
        known = ", ".join(one.name for one in net.transitions[:20])
        raise InvalidError(f'step: this text has no step "{name[:200]}"; it has {known}')
    if net.dialect == V2_CASE and step.case is not None:
        raise InvalidError(f'step: the rules of step "{name}" lead to other steps; migrate the text to v10 first')
    if not step.tasks:
        raise InvalidError(f'step: "{name}" runs no tool, so there is nothing to test')
    return msgspec.structs.replace(
        net,
        name=f"{net.name}: {name}",
        path=f"{net.path}/step-test",
        metadata={**net.metadata, "labels": {**(net.metadata.get("labels") or {}), LABEL: name}},
        entry=name,
        trigger=None,
        notifications=(),
        executor=msgspec.structs.replace(net.executor, auto_compensate=False),
        transitions=tuple(_ends_here(one) if one is step else one for one in net.transitions),
    )


def _ends_here(step: Transition) -> Transition:
    """Without arcs, and without what waits for other tokens or for people."""
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
    """What the step read when it last ran there. InvalidError where it did not."""
    found = rerun_state(execution_id, trace_id, events, net, step)
    if found is None:
        raise InvalidError(f'step: "{step}" has not run in execution {execution_id}')
    return found


def recorded_inputs(state: RerunState, events: list[Event], load: Load) -> tuple[StepTestInputs, list[str]]:
    """The same as a form shows it, and the results that are too large for that or no longer kept."""
    results: dict[str, Any] = {}
    hidden: list[str] = []
    for one in state.results:
        try:
            value = payload_of(one.result, load)
        except ToolError:
            hidden.append(one.step)
            continue
        if len(msgspec.json.encode(value)) > MOST_BYTES:
            hidden.append(one.step)
        else:
            results[one.step] = value
    started = next((one.payload for one in events if isinstance(one.payload, WorkflowStarted)), None)
    workload = started.workload if started is not None else {}
    return StepTestInputs(args=state.args, ctx=state.ctx, workload=workload, results=results), hidden


def merged_inputs(recorded: StepTestInputs, given: StepTestInputs) -> StepTestInputs:
    """What an earlier run read, with what is given over it, name by name. Results are not merged: those that are not
    given are carried over as they were recorded."""
    parts = ("args", "ctx", "workload")
    return msgspec.structs.replace(
        given, **{part: {**getattr(recorded, part), **getattr(given, part)} for part in parts}
    )


def begun_test_state(step: str, given: StepTestInputs, recorded: RerunState | None, load: Load) -> RerunState:
    """What the test begins with. A recorded result stays as it was recorded where the form gives it back unchanged, or
    did not show it."""
    kept = {one.step: one.result for one in recorded.results} if recorded is not None else {}
    results = {**kept, **{name: _result(kept.get(name), value, load) for name, value in given.results.items()}}
    return RerunState(
        execution_id=recorded.execution_id if recorded is not None else "",
        step=step,
        at=recorded.at if recorded is not None else 0,
        args=given.args,
        ctx=given.ctx,
        results=tuple(CarriedResult(step=name, result=result) for name, result in results.items()),
    )


def _result(kept: TaskResult | None, value: Any, load: Load) -> TaskResult:
    if kept is not None and payload_of(kept, load) == value:
        return kept
    return TaskResult(result=value)
