"""Names of v2-case templates: `event`, `response`, `result`, `this`, `page`, `error`, `_retry` (V2C-05, V2C-16, C-26).

Which of them a place can read is the table of `templates.scope`; each function here serves one of its rows. A costly
value is a view, so that a large result is loaded only where a template asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from noetl.engine.pipeline.scopes import AliasedName, Load, PipelineScope, error_view, view_of
from noetl.engine.v2_case.parts import CALL, is_page_sink, task_at
from noetl.events.legacy_names import foreign_aliases, own_aliases
from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult, unwrapped
from noetl.events.v2_case_positions import CaseCalls, OwnEvent
from noetl.net.net import Transition
from noetl.net.task import Collect, Repeat, Task
from noetl.templates.scope import is_reserved
from noetl.templates.values import with_headers
from noetl.templates.views import PayloadView


class Later:
    """A value that is made when a template first reads it, and read as results are (TPL-07). `wrapped`: it is of a tool
    that wraps its payload (O-22)."""

    __slots__ = ("_made", "_make", "_wrapped")

    def __init__(self, make: Callable[[], Any], *, wrapped: bool = False) -> None:
        self._make = make
        self._made: list[Any] = []
        self._wrapped = wrapped

    def value(self) -> Any:
        if not self._made:
            self._made.append(self._make())
        return self._made[0]

    def lookup(self, name: str | int) -> Any:
        return PayloadView(self.value(), wrapped=self._wrapped).lookup(name)


def with_names(around: PipelineScope, **names: Any) -> PipelineScope:
    return msgspec.structs.replace(around, names={**around.names, **names})


def rule_names(step: Transition, around: PipelineScope, position: Position, event: OwnEvent) -> dict[str, Any]:
    """The names that `when` and `then` of a case read: the event, and the response of its call, whole and unwrapped
    (V2C-05)."""
    result, load = _result_of(position, event), around.load
    # Not made before a template asks: most rules read the status, and a result may have to be loaded.
    values = Later(lambda: _values(step, position, load))
    whole = Later(lambda: with_collected(result, values.value(), load))
    return {
        **_own_result(step, result, event, load),
        **_collected_values(step, position, load),
        "event": _event(step, event, result, around),
        "response": _response(result, event.error, load),
        "result": Later(lambda: _payload(whole.value(), load), wrapped=result.wrapped),
        "this": _envelope(result, event.error, load),
    }


def _own_result(step: Transition, result: TaskResult, event: OwnEvent, load: Load) -> dict[str, Any]:
    """The step's own name, as soon as its call has ended: rules read the new result, not that of an earlier visit."""
    is_own = event.step is None and (event.task is not None or event.given is not msgspec.UNSET)
    return {step.name: view_of(result, load)} if is_own and not is_reserved(step.name) else {}


def boundary_names(result: TaskResult | None, error: Error | None, load: Load) -> dict[str, Any]:
    """The names of the result that `vars` and `next` of a step read, where the server renders them."""
    found = result or TaskResult()
    return {
        "response": _response(found, error, load),
        "result": Later(lambda: _payload(found, load), wrapped=found.wrapped),
        "this": _envelope(found, error, load),
    }


def retry_names(step: Transition, around: PipelineScope, position: Position, call: Task) -> dict[str, Any]:
    """The names that retry policies read after a call: its response or its error, raw."""
    result = position.results[call.name]
    error = result.error
    assert position.case is not None
    event = OwnEvent(name="call.error" if error else "call.done", task=call.name, error=error)
    return {
        **rule_names(step, around, position, event),
        "error": error_view(error),
        "status_code": _status_code(result, around.load),
        "_retry": retry_counts(position.case.calls),
    }


def page_names(step: Transition, around: PipelineScope, position: Position, call: Task) -> dict[str, Any]:
    """The names that the sink of a retry policy reads: the response as `page`."""
    names = rule_names(step, around, position, OwnEvent(name="call.done", task=call.name))
    assert position.case is not None
    return {**names, "page": names["response"], "_retry": retry_counts(position.case.calls)}


def retry_counts(calls: CaseCalls) -> dict[str, int]:
    """`index` counts the responses, or the errors in a row; `count` every call made (V2C-16, C-34)."""
    return {"index": calls.streak or calls.responses, "count": calls.count}


def input_names(step: Transition, around: PipelineScope, position: Position) -> PipelineScope:
    """The surroundings of the task that comes next, with the names its place has."""
    case = position.case
    if case is None or case.at is None:
        return around
    if case.at == CALL:
        # The call that these inputs are for is the current one (001 §6.3), and `count` has those before it.
        return with_names(around, _retry={"index": case.calls.count + 1, "count": case.calls.count})
    if is_page_sink(case.at):
        return with_names(around, **page_names(step, around, position, step.tasks[0]))
    event = case.event if case.event is not None and case.at != "sink" else None
    event = event or OwnEvent(name="call.done", task=case.result_of)
    return with_names(around, **rule_names(step, around, position, event))


def next_task(step: Transition, position: Position) -> Task:
    """The task a case run asks for."""
    assert position.case is not None
    assert position.case.at is not None
    return task_at(step, position.case.at)


def step_result(step: Transition, position: Position, load: Load) -> TaskResult:
    """The result of the step run: that of its call, or else of its last task in a `then`, with the collected values."""
    assert position.case is not None
    if position.case.given is not msgspec.UNSET:
        return TaskResult(result=position.case.given)
    result = position.results.get(position.case.result_of or "")
    if result is None or result.error is not None:
        return TaskResult()
    return with_collected(result, _values(step, position, load), load)


def _values(step: Transition, position: Position, load: Load) -> dict[str, Any]:
    return {each.into: collected(each, position.pages, load) for each in collects_of(step) if position.pages}


def _collected_values(step: Transition, position: Position, load: Load) -> dict[str, Any]:
    """The names under which collected values are read (O-28)."""
    pages = position.pages

    def later(at: int) -> Later:
        return Later(lambda: collected(collects[at], pages, load))

    collects = collects_of(step)
    return {each.into: later(at) for at, each in enumerate(collects)} if pages else {}


def _result_of(position: Position, event: OwnEvent) -> TaskResult:
    if event.given is not msgspec.UNSET:
        return TaskResult(result=event.given)
    return position.results.get(event.task or "") or TaskResult()


def _full(result: TaskResult, load: Load) -> Any:
    return with_headers(load(result.ref) if result.ref else result.result, wrapped=result.wrapped)


def _payload(result: TaskResult, load: Load) -> Any:
    return unwrapped(_full(result, load), wrapped=result.wrapped)


def _response(result: TaskResult, error: Error | None, load: Load) -> Any:
    """The tool's full result, or `{status_code, error}` of a call that failed (V2C-05)."""
    if error is not None:
        return {"status_code": error.status, "error": error_view(error)}
    return Later(lambda: _full(result, load), wrapped=result.wrapped)


def _status_code(result: TaskResult, load: Load) -> Any:
    if result.error is not None:
        return result.error.status
    return Later(lambda: _field(_full(result, load), "status_code"))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _envelope(result: TaskResult, error: Error | None, load: Load) -> dict[str, Any]:
    error = error or result.error
    return {
        "status": "error" if error else "success",
        "result": None if error else Later(lambda: _full(result, load), wrapped=result.wrapped),
        "data": None if error else Later(lambda: _payload(result, load), wrapped=result.wrapped),
        "error": error_view(error),
        "status_code": _status_code(result, load),
    }


def _event(step: Transition, event: OwnEvent, result: TaskResult, around: PipelineScope) -> dict[str, Any]:
    load, looped = around.load, around.iteration is not None
    error = event.error.readable() if event.error else None
    if event.step is not None:
        return _foreign_event_names(event, error)
    payload = None if error else Later(lambda: _payload(result, load), wrapped=result.wrapped)
    data = {"error": error} if error else Later(lambda: {"result": _payload(result, load)})
    return {
        "name": AliasedName(event.name, own_aliases(event.name, failed=error is not None, looped=looped)),
        "step": step.name,
        "status": "error" if error else "success",
        "data": data,
        "result": payload,
        "error": error_view(event.error),
    }


def _foreign_event_names(event: OwnEvent, error: dict[str, Any] | None) -> dict[str, Any]:
    """An event that the step only listens to (V2C-13), or that ended its wait."""
    return {
        "name": AliasedName(event.name, foreign_aliases(event.name, failed=error is not None)),
        "step": event.step,
        "status": "error" if error else "success",
        "data": event.data,
        "result": event.data.get("result") if isinstance(event.data, dict) else None,
        "error": error,
    }


# Collecting: how `collect` combines the responses of a sequence (V2C-17, O-28).

_NOTHING: Any = object()


def collects_of(step: Transition) -> tuple[Collect, ...]:
    """Every `collect` of the step: of its own policies, then of its rules'."""
    rules = step.case.rules if step.case else ()
    policies: list[Repeat] = [policy for task in step.tasks for policy in task.repeat]
    policies += [policy for rule in rules for policy in rule.repeat]
    return tuple(policy.collect for policy in policies if policy.collect is not None)


def collected(collect: Collect, pages: Iterable[TaskResult], load: Load) -> Any:
    """The values at `path` of all responses, put together."""
    found = (_at_path(page, collect, load) for page in pages)
    values = [value for value in found if value is not _NOTHING]
    match collect.strategy:
        case "push":
            return values
        case "replace":
            return values[-1] if values else None
        case "merge":
            return {key: item for value in values if isinstance(value, dict) for key, item in value.items()}
        case _:
            return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _at_path(page: TaskResult, collect: Collect, load: Load) -> Any:
    """The value in the response, or in its payload where the path begins there, as a template would read it."""
    full = load(page.ref) if page.ref else page.result
    payload = unwrapped(full, wrapped=page.wrapped)
    found = _at(full, collect.path)
    # `path: data` of a body that is {"data": [...], ...}: what can be appended are the entries, not the body.
    of_body = found is _NOTHING or (collect.strategy == "append" and collect.path == "data" and page.wrapped)
    inner = _at(payload, collect.path) if of_body else _NOTHING
    return found if inner is _NOTHING else inner


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NOTHING
    return value


def with_collected(result: TaskResult, values: dict[str, Any], load: Load) -> TaskResult:
    """The result with what was collected as fields of its payload; a payload without fields gives way to them."""
    if not values or result.error is not None:
        return result
    full = load(result.ref) if result.ref else result.result
    if result.wrapped and isinstance(full, dict) and "data" in full:
        full = {**full, "data": _payload_with_values(full["data"], values)}
    else:
        full = _payload_with_values(full, values)
    return msgspec.structs.replace(result, result=full, ref=None)


def _payload_with_values(payload: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {**payload, **values} if isinstance(payload, dict) else values
