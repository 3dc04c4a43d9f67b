"""Wait blocks and similar: parts of a step besides its pipeline, in v10 and v2-case (TMR, MSG, HUM, SAGA, ADV).

The two dialects write these blocks the same; only the tasks inside them differ, so the caller brings the
reader of its task lists along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.base.diagnostics import is_template
from noetl.language.grammar import waits
from noetl.language.grammar.model import Construct
from noetl.language.reading import playbook
from noetl.language.reading.nodes import Mapping, Node, Sequence, data
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    choice,
    duration,
    duration_or_moment,
    guard,
    known_block,
    mapping,
    moment,
    opening,
    option,
    sequence,
    text,
)

_CODE = "E_STEP_KEY"

# Human tasks: assignee, form, and escalation (HUM-01, HUM-03, HUM-04).


_IN_HUMAN_TASKS = {
    **dict.fromkeys(("fields", "inputs", "questions"), "write form: [{field: …, type: …}]"),
    **dict.fromkeys(("assignees", "approvers", "role", "user", "group"), "write assignee: {role: …} or {user: …}"),
    **dict.fromkeys(("timeout", "expires", "deadline"), "write due_date: 2d, and escalation for what happens then"),
}


def read_human_task(reading: ReadContext, node: Node) -> playbook.HumanTaskSyntax | None:
    block = known_block(
        reading,
        node,
        waits.HUMAN_TASK,
        _CODE,
        "human_task",
        "write human_task: {title: …, assignee: {role: …}}",
        _IN_HUMAN_TASKS,
    )
    if block is None:
        return None
    role, user = _person(reading, block.get("assignee"), waits.ASSIGNEE, "assignee", ("role", "user"))
    after, to_role, to_user = _escalation(reading, block.get("escalation"))
    return playbook.HumanTaskSyntax(
        node=block,
        title=text(reading, block.get("title"), _CODE, "a human task's title"),
        description=text(reading, block.get("description"), _CODE, "a human task's description"),
        data=block.get("data"),
        role=role,
        user=user,
        form=_form(reading, block.get("form")),
        due_date=duration_or_moment(reading, block.get("due_date"), "due_date"),
        escalate_after=after,
        escalate_to_role=to_role,
        escalate_to_user=to_user,
        escalation_mode=_escalation_mode(reading, block.get("spec")),
    )


def _person(
    reading: ReadContext, node: Node | None, construct: Construct, what: str, keys: tuple[str, str]
) -> tuple[Node | None, Node | None]:
    """The role and the user that a mapping names; it must name exactly one of them."""
    block = known_block(reading, node, construct, _CODE, what, f"write {what}: {{{keys[0]}: …}}")
    if block is None:
        return None, None
    if (keys[0] in block) == (keys[1] in block):
        found = "both" if keys[0] in block else "neither"
        reading.error(_CODE, opening(block), f"{what} has {found} of {keys[0]} and {keys[1]}", "name one of them")
    role, user = (text(reading, block.get(key), _CODE, f"{what}.{key}") for key in keys)
    return role, user


def _escalation(reading: ReadContext, node: Node | None) -> tuple[Node | None, Node | None, Node | None]:
    role, user = _person(reading, node, waits.ESCALATION, "escalation", ("to_role", "to_user"))
    if not isinstance(node, Mapping):
        return None, None, None
    if "after" not in node:
        reading.error("E_DURATION", opening(node), "this escalation does not say after how long", "add after: 48h")
    return duration(reading, node.get("after"), "escalation.after"), role, user


def _escalation_mode(reading: ReadContext, node: Node | None) -> str:
    spec = _spec(reading, node, waits.HUMAN_TASK_SPEC)
    modes = waits.HUMAN_TASK_SPEC["escalation_mode"].words
    return choice(reading, option(spec, "escalation_mode"), modes, "E_SPEC_OPTION", "escalation_mode") or "reassign"


def _form(reading: ReadContext, node: Node | None) -> tuple[playbook.FormFieldSyntax, ...]:
    items = sequence(reading, node, _CODE, "a human task's form", "write a list of {field: …, type: …}")
    fields: dict[str, playbook.FormFieldSyntax] = {}
    for item in items or ():
        field = _field(reading, item)
        if field is None:
            continue
        if field.field in fields:
            reading.error(_CODE, field, f'the form already has a field "{field.field}"', "rename one of them")
        fields.setdefault(field.field, field)
    return tuple(fields.values())


_NAMED = dict.fromkeys(("name", "id", "key"), "write field: NAME")
_LABELLED = dict.fromkeys(
    ("label", "title", "description"), "people see the name of the field; describe it in the task"
)


def _field(reading: ReadContext, node: Node) -> playbook.FormFieldSyntax | None:
    hints = _NAMED | _LABELLED | dict.fromkeys(("choices", "values", "enum"), "write options: […]")
    form = "write {field: …, type: …}"
    block = known_block(reading, node, waits.FORM_FIELD, _CODE, "a form field", form, elsewhere=hints)
    if block is None:
        return None
    name = text(reading, block.get("field"), _CODE, "a form field's name")
    if "field" not in block:
        reading.error(_CODE, opening(block), "this form field has no name", "add field: <name>")
    kind = choice(reading, block.get("type"), waits.FORM_FIELD["type"].words, _CODE, "a form field's type") or "string"
    options = sequence(reading, block.get("options"), _CODE, "a form field's options")
    _check_options(reading, block, kind)
    required = boolean(reading, block.get("required"), _CODE, "required")
    if name is None:
        return None
    return playbook.FormFieldSyntax(
        node=block,
        field=str(name.value),
        type=kind,
        options=options.items if options is not None else (),
        required=required,
        default=block.get("default"),
    )


def _check_options(reading: ReadContext, block: Mapping, kind: str) -> None:
    options = data(block.get("options"))
    if kind != "enum":
        if "options" in block:
            reading.error(_CODE, block.keys["options"], f'a field of type "{kind}" has no options', "write type: enum")
        return
    if not options:
        reading.error(_CODE, opening(block), "an enum field needs options", "add options: [approve, reject]")
    elif isinstance(options, list) and "default" in block and data(block.get("default")) not in options:
        allowed = ", ".join(str(option) for option in options)
        reading.error(
            _CODE, block.values["default"], "the default is not one of the options", f"write one of {allowed}"
        )


BLOCKS = tuple(key.name for key in waits.BLOCKS)


def read_wait_blocks(reading: ReadContext, step: Mapping, read_tasks: ReadTasks) -> playbook.WaitBlocksSyntax:
    """The blocks that are written; `read_tasks(reading, node, what)` reads a list of tasks."""
    _refuse_loops(reading, step)
    blocks: dict[str, Any] = {}
    for name in BLOCKS:
        node = step.get(name)
        if node is None:
            continue
        block = _read_block(reading, name, node, read_tasks)
        if block is not None:
            blocks[name] = block
    return playbook.WaitBlocksSyntax(**blocks)


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


_IN_TIMERS = {
    **dict.fromkeys(("for", "after", "delay", "wait", "sleep", "interval"), "write duration: 5m"),
    **dict.fromkeys(("seconds", "minutes", "hours", "days"), "write duration: 5m, with its unit behind the number"),
    **dict.fromkeys(("at", "date"), "write until: 2025-01-31T06:00:00Z"),
}


def _timer(reading: ReadContext, node: Node) -> playbook.TimerSyntax | None:
    block = known_block(reading, node, waits.TIMER, _CODE, "timer", "write timer: {duration: 5m}", _IN_TIMERS)
    if block is None:
        return None
    spec = _spec(reading, block.get("spec"), waits.TIMER_SPEC)
    if ("duration" in block) == ("until" in block):
        found = "both duration and until" if "duration" in block else "neither duration nor until"
        reading.error("E_DURATION", opening(block), f"this timer has {found}", "write one of them")
    return playbook.TimerSyntax(
        node=block,
        id=block.get("id"),
        duration=duration(reading, block.get("duration"), "a timer's duration"),
        until=moment(reading, block.get("until"), "a timer's until"),
        cancellable=boolean(reading, option(spec, "cancellable"), "E_SPEC_OPTION", "cancellable"),
    )


def _message(reading: ReadContext, node: Node) -> playbook.MessageSyntax | None:
    block = known_block(reading, node, waits.MESSAGE, _CODE, "message", "write message: {name: …, correlation: {…}}")
    if block is None:
        return None
    spec = _spec(reading, block.get("spec"), waits.MESSAGE_SPEC)
    actions = waits.MESSAGE_SPEC["timeout_action"].words
    action = choice(reading, option(spec, "timeout_action"), actions, "E_SPEC_OPTION", "timeout_action")
    correlation = mapping(reading, block.get("correlation"), _CODE, "a message's correlation")
    timeout = duration(reading, block.get("timeout"), "a message's timeout")
    name = _name(reading, block, "message")
    if name is None:
        return None
    return playbook.MessageSyntax(
        node=block, name=name, correlation=correlation, timeout=timeout, timeout_action=action or "escalate"
    )


def _signal(reading: ReadContext, node: Node) -> playbook.SignalSyntax | None:
    block = known_block(reading, node, waits.SIGNAL, _CODE, "signal", "write signal: {name: …}")
    if block is None:
        return None
    name = _name(reading, block, "signal")
    return playbook.SignalSyntax(node=block, name=name) if name is not None else None


def _name(reading: ReadContext, block: Mapping, what: str) -> Node | None:
    if "name" not in block:
        reading.error(_CODE, opening(block), f"this {what} has no name", f"write {what}: {{name: …}}")
        return None
    return text(reading, block.get("name"), _CODE, f"a {what}'s name")


def _timeout(reading: ReadContext, node: Node) -> playbook.TimeoutSyntax | None:
    """The timeout block of TMR-05: a length, what happens then, and where `alternative` leads."""
    code = "E_TIMEOUT_SHAPE"
    block = known_block(reading, node, waits.TIMEOUT, code, "timeout", "write timeout: {duration: 300s}")
    if block is None:
        return None
    spec = _spec(reading, block.get("spec"), waits.TIMEOUT_SPEC)
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
    return playbook.TimeoutSyntax(node=block, duration=length, on_timeout=on_timeout, alternative=alternative)


def _check_alternative(reading: ReadContext, block: Mapping, on_timeout: str, *, chosen: bool) -> None:
    """The alternative action needs a step. With another `on_timeout` the step is allowed too: authors change only
    that word to try the other two actions (F-002-K)."""
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


def _spec(reading: ReadContext, node: Node | None, construct: Construct) -> Mapping | None:
    return known_block(reading, node, construct, "E_SPEC_OPTION", construct.what)


# Compensations and event handlers: tasks that a step keeps ready for later (SAGA-01, ADV-01, C-36).

ReadTasks = Callable[[ReadContext, Node, str], tuple[playbook.TaskSyntax | playbook.Sugar, ...]]


def read_compensate(reading: ReadContext, node: Node, read_tasks: ReadTasks) -> playbook.Compensate | None:
    block = known_block(reading, node, waits.COMPENSATE, _CODE, "compensate", "write compensate: {tool: {kind: …}}")
    if block is None:
        return None
    idempotent = _flag(reading, block.get("spec"), waits.COMPENSATE_SPEC, "idempotent")
    tool = block.get("tool")
    if tool is None:
        reading.error(_CODE, opening(block), "compensate has no tool to run", "write compensate: {tool: {kind: …}}")
        return None
    tasks = read_tasks(reading, tool, "compensate")
    for part in tasks:
        if isinstance(part, playbook.Sugar):
            reading.error(_CODE, part, f'a compensation is plain tasks, and this is "{part.construct}"')
    plain = tuple(part for part in tasks if isinstance(part, playbook.TaskSyntax))
    return playbook.Compensate(node=block, tasks=plain, idempotent=idempotent)


def read_on_event(reading: ReadContext, node: Node, read_tasks: ReadTasks) -> playbook.OnEvent | None:
    """`{spec, handlers}`, or a bare list of handlers, which never interrupts (C-36)."""
    if isinstance(node, Sequence):
        return playbook.OnEvent(node=node, handlers=_handlers(reading, node, read_tasks))
    block = known_block(
        reading, node, waits.ON_EVENT, _CODE, "on_event", "write on_event: {handlers: [{event: …, then: […]}]}"
    )
    if block is None:
        return None
    interrupting = _flag(reading, block.get("spec"), waits.ON_EVENT_SPEC, "interrupting")
    handlers = sequence(reading, block.get("handlers"), _CODE, "on_event.handlers")
    if handlers is None or not handlers.items:
        if "handlers" not in block or handlers is not None:
            reading.error(_CODE, opening(block), "on_event has no handlers", "add handlers: [{event: …, then: […]}]")
        return None
    return playbook.OnEvent(node=block, handlers=_handlers(reading, handlers, read_tasks), interrupting=interrupting)


def _handlers(reading: ReadContext, nodes: Sequence, read_tasks: ReadTasks) -> tuple[playbook.HandlerSyntax, ...]:
    handlers = []
    for node in nodes:
        block = known_block(reading, node, waits.HANDLER, _CODE, "an event handler", "write {event: …, then: […]}")
        if block is None:
            continue
        for key in ("event", "then"):
            if key not in block:
                reading.error(_CODE, opening(block), f"this event handler has no {key}", "write {event: …, then: […]}")
        event = text(reading, block.get("event"), _CODE, "a handler's event", "name the event")
        when = guard(reading, block.get("when"))
        then = block.get("then")
        tasks = read_tasks(reading, then, "an event handler's then") if then is not None else ()
        # It is dropped only here, after all mistakes in it have been reported.
        if event is not None:
            handlers.append(playbook.HandlerSyntax(node=block, event=event, when=when, tasks=tasks))
    return tuple(handlers)


def _flag(reading: ReadContext, node: Node | None, construct: Construct, name: str) -> bool:
    """The one true-or-false option that these blocks have in their spec."""
    return boolean(reading, option(_spec(reading, node, construct), name), "E_SPEC_OPTION", name)
