"""Wait blocks and their kin: what a step may carry besides its pipeline, in v10 and v2-case (TMR, MSG, HUM, SAGA, ADV).

The two dialects write these blocks the same; only the tasks inside them differ, so the caller brings the
reader of its task lists along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.source import is_template
from noetl.language.grammar import waits
from noetl.language.grammar.model import Construct
from noetl.language.grammar.waits import COMPENSATE, COMPENSATE_SPEC, HANDLER, ON_EVENT, ON_EVENT_SPEC
from noetl.language.reading.nodes import Mapping, Node, Sequence
from noetl.language.reading.numbers import duration, moment
from noetl.language.reading.playbook import (
    Compensate,
    HandlerSyntax,
    MessageSyntax,
    OnEvent,
    SignalSyntax,
    Sugar,
    TaskSyntax,
    TimeoutSyntax,
    TimerSyntax,
)
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    guard,
    mapping,
    opening,
    option,
    sequence,
    text,
)
from noetl.language.reading.waits.human import read_human_task

BLOCKS = tuple(key.name for key in waits.BLOCKS)


def read_wait_blocks(reading: ReadContext, step: Mapping, read_tasks: ReadTasks) -> dict[str, Any]:
    """The Step fields of the blocks that are written; `read_tasks(reading, node, what)` reads a list of tasks."""
    _refuse_loops(reading, step)
    blocks: dict[str, Any] = {}
    for name in BLOCKS:
        node = step.get(name)
        if node is None:
            continue
        block = _read_block(reading, name, node, read_tasks)
        if block is not None:
            blocks[name] = block
    return blocks


def _read_block(reading: ReadContext, name: str, node: Node, read_tasks: ReadTasks) -> Any:
    match name:
        case "timer":
            return _timer(reading, node)
        case "message":
            return _message(reading, node)
        case "signal":
            return _signal(reading, node)
        case "human_task":
            return read_human_task(reading, node)
        case "timeout":
            return _timeout(reading, node)
        case "compensate":
            return read_compensate(reading, node, read_tasks)
        case _:
            return read_on_event(reading, node, read_tasks)


def _refuse_loops(reading: ReadContext, step: Mapping) -> None:
    """A loop has one boundary event and a wait block another: a step has one or the other (TMR-02)."""
    if "loop" not in step:
        return
    for name in waits.WAITS:
        if name in step:
            reading.error(
                "E_WAIT_LOOP",
                step.keys[name],
                f'a looped step cannot wait for a "{name}"',
                "wait in a step of its own, before or after the loop",
            )


def _timer(reading: ReadContext, node: Node) -> TimerSyntax | None:
    block = mapping(reading, node, "E_STEP_KEY", "timer", "write timer: {duration: 5m}")
    if block is None:
        return None
    check_keys(reading, block, waits.TIMER, "E_STEP_KEY")
    spec = _spec(reading, block, waits.TIMER_SPEC)
    if ("duration" in block) == ("until" in block):
        found = "both duration and until" if "duration" in block else "neither duration nor until"
        reading.error("E_DURATION", opening(block), f"this timer has {found}", "write one of them")
    return TimerSyntax(
        node=block,
        id=block.get("id"),
        duration=duration(reading, block.get("duration"), "a timer's duration"),
        until=moment(reading, block.get("until"), "a timer's until"),
        cancellable=boolean(reading, option(spec, "cancellable"), "E_SPEC_OPTION", "cancellable"),
    )


def _message(reading: ReadContext, node: Node) -> MessageSyntax | None:
    block = mapping(reading, node, "E_STEP_KEY", "message", "write message: {name: …, correlation: {…}}")
    if block is None:
        return None
    check_keys(reading, block, waits.MESSAGE, "E_STEP_KEY")
    spec = _spec(reading, block, waits.MESSAGE_SPEC)
    actions = waits.MESSAGE_SPEC["timeout_action"].words
    action = choice(reading, option(spec, "timeout_action"), actions, "E_SPEC_OPTION", "timeout_action")
    correlation = mapping(reading, block.get("correlation"), "E_STEP_KEY", "a message's correlation")
    timeout = duration(reading, block.get("timeout"), "a message's timeout")
    name = _name(reading, block, "message")
    if name is None:
        return None
    return MessageSyntax(
        node=block, name=name, correlation=correlation, timeout=timeout, timeout_action=action or "escalate"
    )


def _signal(reading: ReadContext, node: Node) -> SignalSyntax | None:
    block = mapping(reading, node, "E_STEP_KEY", "signal", "write signal: {name: …}")
    if block is None:
        return None
    check_keys(reading, block, waits.SIGNAL, "E_STEP_KEY")
    name = _name(reading, block, "signal")
    return SignalSyntax(node=block, name=name) if name is not None else None


def _name(reading: ReadContext, block: Mapping, what: str) -> Node | None:
    if "name" not in block:
        reading.error("E_STEP_KEY", opening(block), f"this {what} has no name", f"write {what}: {{name: …}}")
        return None
    return text(reading, block.get("name"), "E_STEP_KEY", f"a {what}'s name")


def _timeout(reading: ReadContext, node: Node) -> TimeoutSyntax | None:
    """The timeout block of TMR-05: a length, what happens then, and where `alternative` leads."""
    code = "E_TIMEOUT_SHAPE"
    block = mapping(reading, node, code, "timeout", "write timeout: {duration: 300s}")
    if block is None:
        return None
    check_keys(reading, block, waits.TIMEOUT, code)
    spec = _spec(reading, block, waits.TIMEOUT_SPEC)
    words = waits.TIMEOUT_SPEC["on_timeout"].words
    written = option(spec, "on_timeout")
    on_timeout = choice(reading, written, words, code, "on_timeout") or "fail"
    alternative = text(reading, block.get("alternative_step"), code, "alternative_step", "name a step")
    if alternative is not None and is_template(str(alternative.value)):
        reading.error(code, alternative, "alternative_step must be a step's name, and this is a template")
        alternative = None
    _check_alternative(reading, block, on_timeout, chosen=written is not None)
    if "duration" not in block:
        reading.error(code, opening(block), "this timeout has no duration", "write timeout: {duration: 300s}")
    length = duration(reading, block.get("duration"), "a timeout's duration")
    if length is None:
        return None
    return TimeoutSyntax(node=block, duration=length, on_timeout=on_timeout, alternative=alternative)


def _check_alternative(reading: ReadContext, block: Mapping, on_timeout: str, *, chosen: bool) -> None:
    """A step is named where it is taken. Beside an `on_timeout` that the author chose it may stand all the same: there
    the word alone is changed to try the other two (F-002-K)."""
    written = "alternative_step" in block
    if on_timeout == "alternative" and not written:
        reading.error(
            "E_TIMEOUT_SHAPE",
            opening(block),
            "on_timeout is alternative, but no alternative_step is named",
            "add alternative_step: <a step>",
        )
    elif written and not chosen:
        reading.error(
            "E_TIMEOUT_SHAPE",
            block.keys["alternative_step"],
            "alternative_step is never taken: without on_timeout the step fails",
            "add spec: {on_timeout: alternative}, or leave alternative_step out",
        )


def _spec(reading: ReadContext, block: Mapping, construct: Construct) -> Mapping | None:
    spec = mapping(reading, block.get("spec"), "E_SPEC_OPTION", construct.what)
    if spec is not None:
        check_keys(reading, spec, construct, "E_SPEC_OPTION")
    return spec


# Compensations and event handlers: tasks that a step keeps ready for later (SAGA-01, ADV-01, C-36).

ReadTasks = Callable[[ReadContext, Node, str], tuple[TaskSyntax | Sugar, ...]]

_CODE = "E_STEP_KEY"


def read_compensate(reading: ReadContext, node: Node, read_tasks: ReadTasks) -> Compensate | None:
    block = mapping(reading, node, _CODE, "compensate", "write compensate: {tool: {kind: …}}")
    if block is None:
        return None
    check_keys(reading, block, COMPENSATE, _CODE)
    idempotent = _flag(reading, block.get("spec"), COMPENSATE_SPEC, "idempotent")
    tool = block.get("tool")
    if tool is None:
        reading.error(_CODE, opening(block), "compensate has no tool to run", "write compensate: {tool: {kind: …}}")
        return None
    tasks = read_tasks(reading, tool, "compensate")
    for part in tasks:
        if isinstance(part, Sugar):
            reading.error(_CODE, part, f'a compensation is plain tasks, and this is "{part.construct}"')
    plain = tuple(part for part in tasks if isinstance(part, TaskSyntax))
    return Compensate(node=block, tasks=plain, idempotent=idempotent)


def read_on_event(reading: ReadContext, node: Node, read_tasks: ReadTasks) -> OnEvent | None:
    """`{spec, handlers}`, or a bare list of handlers, which never interrupts (C-36)."""
    if isinstance(node, Sequence):
        return OnEvent(node=node, handlers=_handlers(reading, node, read_tasks))
    block = mapping(reading, node, _CODE, "on_event", "write on_event: {handlers: [{event: …, then: […]}]}")
    if block is None:
        return None
    check_keys(reading, block, ON_EVENT, _CODE)
    interrupting = _flag(reading, block.get("spec"), ON_EVENT_SPEC, "interrupting")
    handlers = sequence(reading, block.get("handlers"), _CODE, "on_event.handlers")
    if handlers is None or not handlers.items:
        if "handlers" not in block or handlers is not None:
            reading.error(_CODE, opening(block), "on_event has no handlers", "add handlers: [{event: …, then: […]}]")
        return None
    return OnEvent(node=block, handlers=_handlers(reading, handlers, read_tasks), interrupting=interrupting)


def _handlers(reading: ReadContext, nodes: Sequence, read_tasks: ReadTasks) -> tuple[HandlerSyntax, ...]:
    handlers = []
    for node in nodes:
        block = mapping(reading, node, _CODE, "an event handler", "write {event: …, then: […]}")
        if block is None:
            continue
        check_keys(reading, block, HANDLER, _CODE)
        for key in ("event", "then"):
            if key not in block:
                reading.error(_CODE, opening(block), f"this event handler has no {key}", "write {event: …, then: […]}")
        event = text(reading, block.get("event"), _CODE, "a handler's event", "name the event")
        when = guard(reading, block.get("when"))
        then = block.get("then")
        tasks = read_tasks(reading, then, "an event handler's then") if then is not None else ()
        if event is not None:
            handlers.append(HandlerSyntax(node=block, event=event, when=when, tasks=tasks))
    return tuple(handlers)


def _flag(reading: ReadContext, node: Node | None, construct: Construct, option: str) -> bool:
    """The one true-or-false option that these blocks have in their spec."""
    spec = mapping(reading, node, "E_SPEC_OPTION", construct.what)
    if not isinstance(spec, Mapping):
        return False
    check_keys(reading, spec, construct, "E_SPEC_OPTION")
    return boolean(reading, spec.get(option), "E_SPEC_OPTION", option)
