"""Steps, lowered: each becomes one transition of the net, with its router, admission, join, loop and waits
(ROUTE-01, ROUTE-05, ADM-01, O-01, C-09, C-31).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.base.diagnostics import DiagnosticPosition
from noetl.language.compiling.lowering.tasks import TaskLowering
from noetl.language.compiling.lowering.values import (
    Lowering,
    authored,
    flag,
    loops_of,
    lower_concurrency,
    lower_rate,
    number,
    table,
    word,
    words,
    written,
)
from noetl.language.compiling.passes import key_place
from noetl.language.compiling.step_names import candidates
from noetl.language.reading import playbook as document
from noetl.language.reading.nodes import Mapping, Node, Sequence, data, inner
from noetl.language.reading.playbook import Admit, Dialect, StepSyntax, TaskSyntax
from noetl.language.reading.playbook import ArcSyntax as WrittenArc
from noetl.language.v2_case import port as v2_case
from noetl.net.debug import arc_address, part_address, pipeline_address, step_address
from noetl.net.net import (
    Compensation,
    Emit,
    FormField,
    Handler,
    Handlers,
    HumanTask,
    Lifecycle,
    Loop,
    Message,
    Signal,
    StepResult,
    Timeout,
    Timer,
    Transition,
)
from noetl.net.routing import Admission, AdmitRule, Arc, Join, JoinMode, Mode, Router
from noetl.net.task import Task as NetTask
from noetl.templates.values import Authored


def lower_router(lowering: Lowering, step: StepSyntax) -> Router | None:
    router = step.router
    if router is None:
        return None
    lowering.trace(part_address(step.name, "next"), key_place(step.node, "next", router))
    for index, arc in enumerate(router.arcs):
        address = arc_address(step.name, index)
        lowering.trace(address, arc.target)
        for name, part in (("when", arc.when), ("args", arc.args), ("set_ctx", arc.set_ctx)):
            if part is not None:
                lowering.trace(f"{address}/{name}", part)
    policy = inner(router.spec, "policy")
    return Router(
        arcs=tuple(lower_arc(arc, policy) for arc in router.arcs),
        mode=Mode(router.mode),
        unguarded_always=lowering.unguarded_always or word(inner(router.spec, "unguarded"), "") == "always",
        policy=table(policy),
    )


def lower_arc(arc: WrittenArc, policy: Node | None = None) -> Arc:
    """An arc with its options; the router's policy gives the defaults of three of them (ADV-03…05)."""
    spec = arc.spec
    cancel = inner(spec, "cancel")
    return Arc(
        target="" if arc.template else str(arc.target.value),
        when=authored(arc.when),
        args=authored(arc.args),
        set_ctx=authored(arc.set_ctx),
        computed=Authored(arc.target.value) if arc.template else None,
        candidates=candidates(arc) if arc.template else (),
        delay=authored(inner(spec, "delay")),
        priority=authored(inner(spec, "priority") or inner(policy, "priority")),
        dedupe=authored(inner(spec, "dedupe") or inner(policy, "dedupe")),
        partition=authored(inner(spec, "partition") or _partition_key(inner(policy, "partitioning"))),
        tokens=number(inner(spec, "tokens")) or 1,
        cancel=("*",) if word(cancel, "") == "execution" else words(cancel),
        trigger_compensation=flag(inner(spec, "trigger_compensation")),
    )


def _partition_key(node: Node | None) -> Node | None:
    """`partitioning: {key: …}`, or the expression itself."""
    return node.get("key") if isinstance(node, Mapping) else node


def lower_admission(lowering: Lowering, step: StepSyntax) -> Admission | None:
    admit: Admit | None = step.admit
    if admit is None:
        return None
    lowering.trace(part_address(step.name, "admission"), admit)
    for index, rule in enumerate(admit.rules):
        lowering.trace(part_address(step.name, f"admission/rules/{index}"), rule)
    rules = tuple(
        AdmitRule(when=authored(rule.when), allow=rule.allow, park=rule.park, set_token=authored(rule.set_token))
        for rule in admit.rules
    )
    return Admission(rules=rules, mode=Mode(admit.mode))


def lower_join(lowering: Lowering, step: StepSyntax) -> Join | None:
    """`all`, `any`, `active`, `{count: n}`, or the long form with `mode` and `rest` (O-01)."""
    node = inner(step.spec, "join")
    if node is None:
        return None
    lowering.trace(part_address(step.name, "join"), node)
    count = number(inner(node, "count"))
    mode = word(inner(node, "mode"), "") if isinstance(node, Mapping) else str(data(node))
    # `{count: 2}` needs no mode, and one that is written beside it is refused by the reader.
    if count is not None:
        mode = "count"
    if mode not in list(JoinMode):
        return None
    return Join(mode=JoinMode(mode), count=count, rest=word(inner(node, "rest"), "ignore"))


def lower_step(lowering: Lowering, step: StepSyntax) -> Transition:
    _trace(lowering, step)
    tasks = TaskLowering(lowering, step)
    spec, policy = step.spec, inner(step.spec, "policy")
    return Transition(
        name=step.name,
        desc=step.desc,
        admission=lower_admission(lowering, step),
        join=lower_join(lowering, step),
        loop=lower_loop(lowering, step.name, step.loop),
        tasks=_pipeline(step, tasks),
        args=authored(step.args),
        set_ctx=_set_ctx(step),
        result=_result(step.result or inner(spec, "result")),
        case=v2_case.lower_rules(lowering, step, tasks),
        sink=_sink(step.sink, step, tasks),
        router=lower_router(lowering, step),
        lifecycle=_lifecycle(lowering, step),
        best_effort=_best_effort(step, policy),
        on_error_continue=step.options.on_error == "continue",
        emit=_emit(inner(policy, "emit", "events")),
        tracing=table(inner(policy, "tracing")),
        quotas=table(inner(policy, "quotas")),
        pool=authored(inner(spec, "pool")),
        lease=table(inner(spec, "lease")),
        concurrency=lower_concurrency(inner(spec, "concurrency")),
        rate=lower_rate(inner(spec, "rate")),
        ends_execution=word(inner(spec, "end"), "") == "execution",
        **lower_waits(lowering, step, tasks),
    )


def _trace(lowering: Lowering, step: StepSyntax) -> None:
    """Record the place of the step, and of its parts that are not traced where they are lowered."""
    lowering.trace(step_address(step.name), DiagnosticPosition(step.path, step.name_node.span))
    policy = inner(step.spec, "policy")
    for holder, names in (
        (step.node, ("args", "set_ctx", "vars", "result", "case")),
        (step.spec, ("pool", "lease", "concurrency", "rate", "end")),
        (policy, ("lifecycle", "failure", "emit", "quotas")),
    ):
        for name in names:
            if isinstance(holder, Mapping) and name in holder:
                lowering.trace(part_address(step.name, name), holder.keys[name])


def _pipeline(step: StepSyntax, tasks: TaskLowering) -> tuple[NetTask, ...]:
    """The step's own tasks; the retry block of v2-case belongs to the one call such a step makes."""
    pipeline = tasks.pipeline(step.tasks)
    if not (step.retry and pipeline):
        return pipeline
    return (replace(pipeline[0], repeat=tasks.repeats(step.retry, "retry")), *pipeline[1:])


def _sink(sink: TaskSyntax | None, step: StepSyntax, tasks: TaskLowering) -> NetTask | None:
    return tasks.task(sink, f"{pipeline_address(step.name, 'sink')}/{sink.name}") if sink is not None else None


def _set_ctx(step: StepSyntax) -> Authored | None:
    """Step-level `set_ctx`, and the `vars` block of v2-case, which is the same store (C-05)."""
    values = {**table(step.vars), **table(step.set_ctx)}
    return Authored(values) if values else None


def _result(node: Node | None) -> StepResult | None:
    if not isinstance(node, Mapping):
        return None
    store = node.get("store")
    kind = word(store.get("kind") if isinstance(store, Mapping) else store, "") or None
    return StepResult(store=kind, output_select=words(node.get("output_select")))


def _lifecycle(lowering: Lowering, step: StepSyntax) -> Lifecycle | None:
    """`lifecycle`, or `spec.timeout` of the v2 dialects, which means the same (C-30)."""
    written = inner(step.spec, "policy", "lifecycle")
    timeout = inner(written, "timeout_s")
    if lowering.playbook.dialect.rules is not Dialect.V10:
        # In v10 `spec.timeout` is an option that the step hands on to its tasks.
        timeout = timeout or inner(step.spec, "timeout")
    lifecycle = Lifecycle(timeout_s=authored(timeout), deadline_s=authored(inner(written, "deadline_s")))
    return lifecycle if lifecycle != Lifecycle() else None


def _best_effort(step: StepSyntax, policy: Node | None) -> bool:
    """`failure.mode: best_effort`, or `on_error: continue` on the step or its loop (C-42)."""
    tolerant = step.options.on_error == "continue" or any(loop.on_error == "continue" for loop in loops_of(step.loop))
    return tolerant or word(inner(policy, "failure", "mode"), "") == "best_effort"


def _emit(node: Node | None) -> tuple[Emit, ...]:
    """Names, or `{name, when, data}` (EVT-09)."""
    emitted = []
    for item in node.items if isinstance(node, Sequence) else ():
        name = word(item.get("name") if isinstance(item, Mapping) else item, "")
        if name:
            emitted.append(Emit(name=name, when=authored(inner(item, "when")), data=authored(inner(item, "data"))))
    return tuple(emitted)


# Loops, lowered level by level (LOOP-01, LOOP-07, LOOP-11, LOOP-14, LOOP-15, SPEC-06, V2C-22).


def lower_loop(lowering: Lowering, step: str, loop: document.LoopSyntax | None, part: str = "loop") -> Loop | None:
    if loop is None:
        return None
    lowering.trace(part_address(step, part), loop)
    policy = inner(loop.spec, "policy")
    where = word(inner(policy, "exec"), "")
    partitioning = inner(policy, "partitioning")
    return Loop(
        items=_items(loop.items),
        iterator=str(loop.iterator.value),
        parallel=loop.mode == "parallel",
        max_in_flight=authored(loop.max_in_flight),
        distributed={"distributed": True, "local": False}.get(where),
        ordering=word(inner(policy, "ordering"), "index"),
        reducers={str(key): str(op) for key, op in table(inner(policy, "reducers")).items()},
        ctx_writes=word(inner(policy, "ctx_writes"), "once"),
        partition=authored(partitioning.get("key") if isinstance(partitioning, Mapping) else partitioning),
        max_queue=authored(inner(policy, "backpressure", "max_queue")),
        complete_when=authored(inner(loop.spec, "complete_when")),
        extend=flag(inner(loop.spec, "extend")),
        inner=lower_loop(lowering, step, loop.inner, f"{part}/loop"),
    )


def _items(node: Node) -> Authored:
    """A literal mapping iterates as key and value in document order (LOOP-12), which sorted JSON would lose."""
    if isinstance(node, Mapping):
        return Authored([{"key": key, "value": data(value)} for key, _, value in node.items()])
    return Authored(data(node))


# Wait blocks, timeouts, compensation and event handlers, lowered (TMR, MSG, HUM, SAGA, ADV).


def lower_waits(lowering: Lowering, step: document.StepSyntax, tasks: TaskLowering) -> dict[str, Any]:
    """Those fields of the transition that the step has blocks for."""
    found: dict[str, Any] = {}
    blocks = step.blocks
    if blocks.timer is not None:
        found["timer"] = _timer(blocks.timer, step)
    if blocks.message is not None:
        found["message"] = _message(blocks.message)
    if blocks.signal is not None:
        found["signal"] = Signal(name=written(blocks.signal.name))
    if blocks.human_task is not None:
        found["human_task"] = _human_task(blocks.human_task)
    if blocks.timeout is not None:
        found["timeout"] = _timeout(blocks.timeout)
    for name in found:
        lowering.trace(part_address(step.name, name), getattr(blocks, name))
    if blocks.compensate is not None:
        lowering.trace(part_address(step.name, "compensation"), blocks.compensate)
        compensating = tasks.pipeline(blocks.compensate.tasks, "compensation")
        found["compensation"] = Compensation(tasks=compensating, idempotent=blocks.compensate.idempotent)
    if blocks.on_event is not None:
        lowering.trace(part_address(step.name, "handlers"), blocks.on_event)
        found["handlers"] = _handlers(blocks.on_event, tasks)
    return found


def _timer(timer: document.TimerSyntax, step: document.StepSyntax) -> Timer:
    return Timer(
        id=written(timer.id, step.name),
        duration=authored(timer.duration),
        until=authored(timer.until),
        cancellable=timer.cancellable,
    )


def _message(message: document.MessageSyntax) -> Message:
    return Message(
        name=written(message.name),
        correlation=written(message.correlation, {}),
        timeout=authored(message.timeout),
        timeout_action=message.timeout_action,
    )


def _human_task(task: document.HumanTaskSyntax) -> HumanTask:
    return HumanTask(
        title=authored(task.title),
        description=authored(task.description),
        data=authored(task.data),
        role=authored(task.role),
        user=authored(task.user),
        form=tuple(_form_field(field) for field in task.form),
        due_date=authored(task.due_date),
        escalate_after=authored(task.escalate_after),
        escalate_to_role=authored(task.escalate_to_role),
        escalate_to_user=authored(task.escalate_to_user),
        escalation_mode=task.escalation_mode,
    )


def _form_field(field: document.FormFieldSyntax) -> FormField:
    return FormField(
        field=field.field,
        type=field.type,
        options=tuple(data(option) for option in field.options),
        required=field.required,
        default=authored(field.default),
    )


def _timeout(timeout: document.TimeoutSyntax) -> Timeout:
    taken = timeout.alternative if timeout.on_timeout == "alternative" else None
    alternative = str(taken.value) if taken is not None else None
    return Timeout(duration=written(timeout.duration), on_timeout=timeout.on_timeout, alternative=alternative)


def _handlers(on_event: document.OnEvent, tasks: TaskLowering) -> Handlers:
    handlers = tuple(
        Handler(
            event=str(handler.event.value),
            when=authored(handler.when),
            tasks=tasks.pipeline(handler.tasks, f"handlers/{index}"),
        )
        for index, handler in enumerate(on_event.handlers)
    )
    return Handlers(handlers=handlers, interrupting=on_event.interrupting)
