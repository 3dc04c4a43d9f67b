"""Compensations and event handlers: tasks that a step keeps ready for later (SAGA-01, ADV-01, C-36)."""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.model import Construct
from noetl.language.grammar.waits import COMPENSATE, COMPENSATE_SPEC, HANDLER, ON_EVENT, ON_EVENT_SPEC
from noetl.language.reading.nodes import Mapping, Node, Sequence
from noetl.language.reading.playbook import Compensate, HandlerSyntax, OnEvent, Sugar, TaskSyntax
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    guard,
    mapping,
    opening,
    sequence,
    text,
)

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
