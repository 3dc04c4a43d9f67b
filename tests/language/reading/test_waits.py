"""Wait blocks: the same in v10 and v2-case, each with its own way to write tasks."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import (
    Compensate,
    Dialect,
    HumanTaskSyntax,
    MessageSyntax,
    OnEvent,
    SignalSyntax,
    TimeoutSyntax,
    TimerSyntax,
    WaitBlocksSyntax,
)
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.waits import read_wait_blocks
from noetl.language.v2_case.tools import read_labelled_tasks
from tests.language.v2_case.case_text import codes, root_of


def read(text: str) -> tuple[WaitBlocksSyntax, list[Diagnostic]]:
    reading = ReadContext(Dialect.V2_CASE, Findings())
    blocks = read_wait_blocks(reading, root_of(text), read_labelled_tasks)
    return blocks, list(reading.findings)


@pytest.mark.req("TMR-02", "TMR-04")
def test_a_timer_has_a_duration_or_a_time() -> None:
    blocks, found = read("timer: {id: t1, duration: PT2H30M, spec: {cancellable: true}}")

    assert found == []
    timer = blocks.timer
    assert isinstance(timer, TimerSyntax)
    assert (data(timer.id), data(timer.duration), timer.until, timer.cancellable) == ("t1", "PT2H30M", None, True)
    assert read('timer: {until: "2030-01-31T06:00:00+01:00"}')[1] == []
    assert read('timer: {until: "{{ ctx.when }}"}')[1] == []


@pytest.mark.req("TMR-03")
@pytest.mark.parametrize("length", ["300s", "5m", "48h", "1d", "1h30m", "PT2H30M", "P2D", "90", "1.5", "'{{ n }}'"])
def test_a_duration_is_accepted_in_each_of_its_forms(length: str) -> None:
    assert read(f"timer: {{duration: {length}}}")[1] == []


@pytest.mark.req("TMR-03", "TMR-05", "MSG-04", "HUM-04")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("timer: {duration: soon}", 'this is "soon"'),
        ("timer: {duration: true}", "a boolean"),
        ("timer: {duration: -5}", "must be a duration"),
        ("timer: {duration: [1]}", "a list"),
        ("timer: {until: tomorrow}", "must be a time"),
        ('timer: {until: "2030-01-31T06:00:00"}', "must be a time"),
        ("timer: {spec: {cancellable: true}}", "neither duration nor until"),
        ("timer: {duration: 5m, until: '2030-01-31T06:00:00Z'}", "both duration and until"),
        ("message: {name: m, timeout: later}", "message's timeout"),
        ("timeout: {duration: later}", "timeout's duration"),
        ("human_task: {title: t, due_date: friday}", "due_date"),
        ("human_task: {title: t, escalation: {after: a while, to_role: r}}", "escalation.after"),
        ("human_task: {title: t, escalation: {to_role: r}}", "after how long"),
    ],
)
def test_an_invalid_time_is_refused(text: str, words: str) -> None:
    _, found = read(text)

    assert codes(found) == ["E_DURATION"]
    assert words in found[0].message


@pytest.mark.req("MSG-01", "MSG-04", "O-25")
def test_messages_and_signals_wait_by_name() -> None:
    blocks, found = read(
        """
        message:
          name: approval
          correlation: {order_id: "{{ workload.order_id }}"}
          timeout: 86400s
          spec: {timeout_action: ignore}
        signal: {name: cancelled}
        """
    )

    assert found == []
    message, signal = blocks.message, blocks.signal
    assert isinstance(message, MessageSyntax)
    assert isinstance(signal, SignalSyntax)
    assert (data(message.name), message.timeout_action, data(signal.name)) == ("approval", "ignore", "cancelled")
    assert data(message.correlation) == {"order_id": "{{ workload.order_id }}"}


@pytest.mark.req("HUM-01", "HUM-03", "HUM-04")
def test_a_human_task_has_an_assignee_a_form_and_an_escalation() -> None:
    blocks, found = read(
        """
        human_task:
          title: Approve
          assignee: {role: manager}
          form:
            - {field: decision, type: enum, options: [approve, reject], required: true, default: reject}
            - {field: note}
          due_date: "{{ now() + duration('P2D') }}"
          escalation: {after: 48h, to_user: ann}
          spec: {escalation_mode: notify}
        """
    )

    assert found == []
    task = blocks.human_task
    assert isinstance(task, HumanTaskSyntax)
    assert (data(task.role), task.user, data(task.escalate_to_user)) == ("manager", None, "ann")
    assert [(field.field, field.type, field.required) for field in task.form] == [
        ("decision", "enum", True),
        ("note", "string", False),
    ]
    assert (data(task.escalate_after), task.escalation_mode) == ("48h", "notify")


@pytest.mark.req("TMR-05")
def test_a_timeout_can_name_an_alternative_step() -> None:
    blocks, found = read("timeout: {duration: 300s, spec: {on_timeout: alternative}, alternative_step: late}")

    assert found == []
    timeout = blocks.timeout
    assert isinstance(timeout, TimeoutSyntax)
    assert (timeout.on_timeout, data(timeout.alternative)) == ("alternative", "late")
    unsaid = read("timeout: {duration: 5}")[0].timeout
    assert unsaid is not None
    assert unsaid.on_timeout == "fail"


@pytest.mark.req("TMR-05", "F-002-K")
@pytest.mark.parametrize("action", ["fail", "ignore"])
def test_changing_the_timeout_action_may_leave_the_alternative(action: str) -> None:
    blocks, found = read(f"timeout: {{duration: 5, spec: {{on_timeout: {action}}}, alternative_step: late}}")

    assert found == []
    assert blocks.timeout is not None
    assert blocks.timeout.on_timeout == action


@pytest.mark.req("TMR-02", "TMR-05", "MSG-04")
@pytest.mark.parametrize("block", ["timer: {duration: 5", "message: {name: m", "timeout: {duration: 5"])
def test_an_empty_timeout_spec_is_accepted(block: str) -> None:
    assert read(f"{block}, spec: {{}}}}")[1] == []


@pytest.mark.req("TMR-05")
@pytest.mark.parametrize(
    "timeout",
    [
        "300s",
        "{spec: {on_timeout: fail}}",
        "{duration: 5, spec: {on_timeout: alternative}}",
        "{duration: 5, alternative_step: late}",
        "{duration: 5, spec: {on_timeout: later}}",
        "{duration: 5, spec: {on_timeout: alternative}, alternative_step: '{{ x }}'}",
        "{duration: 5, durations: 6}",
    ],
)
def test_a_timeout_with_missing_or_contradictory_parts_is_refused(timeout: str) -> None:
    assert codes(read(f"timeout: {timeout}")[1]) == ["E_TIMEOUT_SHAPE"]


@pytest.mark.req("TMR-02")
@pytest.mark.parametrize(
    "block", ["timer: {duration: 1}", "message: {name: m}", "signal: {name: s}", "human_task: {title: t}"]
)
def test_a_looped_step_cannot_wait(block: str) -> None:
    assert codes(read(f"loop: {{in: [1], iterator: x}}\n{block}")[1]) == ["E_WAIT_LOOP"]


@pytest.mark.req("SAGA-01")
def test_a_compensation_is_a_prepared_tool() -> None:
    blocks, found = read("compensate: {spec: {idempotent: true}, tool: {kind: postgres, command: DELETE}}")

    assert found == []
    compensate = blocks.compensate
    assert isinstance(compensate, Compensate)
    assert (compensate.idempotent, [task.kind for task in compensate.tasks]) == (True, ["postgres"])


@pytest.mark.req("ADV-01", "C-36", "O-34")
@pytest.mark.parametrize(
    ("text", "interrupting"),
    [
        ("on_event: {spec: {interrupting: true}, handlers: [{event: e, then: [{a: {tool: {kind: noop}}}]}]}", True),
        ("on_event: [{event: e, when: '{{ x }}', then: [{a: {tool: {kind: noop}}}]}]", False),
    ],
)
def test_event_handlers_are_a_list_with_or_without_spec(text: str, interrupting: bool) -> None:
    blocks, found = read(text)

    assert found == []
    on_event = blocks.on_event
    assert isinstance(on_event, OnEvent)
    assert on_event.interrupting is interrupting
    (handler,) = on_event.handlers
    assert (handler.event.value, [task.name for task in handler.tasks]) == ("e", ["a"])


@pytest.mark.req("MSG-01", "HUM-01", "HUM-03", "SAGA-01", "ADV-01", "VAL-16")
@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("timer: 5m", "E_STEP_KEY", "timer"),
        ("timer: {duration: 1, durations: 2}", "E_STEP_KEY", "timer.durations"),
        ("timer: {duration: 1, spec: {cancelable: true}}", "E_SPEC_OPTION", "timer.spec.cancelable"),
        ("timer: {duration: 1, spec: {cancellable: sure}}", "E_SPEC_OPTION", "timer.spec.cancellable"),
        ("message: {correlation: {a: 1}}", "E_STEP_KEY", "message"),
        ("message: {name: m, correlation: [1]}", "E_STEP_KEY", "message.correlation"),
        ("message: {name: m, spec: {timeout_action: retry}}", "E_SPEC_OPTION", "message.spec.timeout_action"),
        ("signal: {}", "E_STEP_KEY", "signal"),
        ("signal: {name: s, payload: 1}", "E_STEP_KEY", "signal.payload"),
        ("human_task: {titel: t}", "E_STEP_KEY", "human_task.titel"),
        ("human_task: {assignee: {}}", "E_STEP_KEY", "human_task.assignee"),
        ("human_task: {assignee: {role: r, user: u}}", "E_STEP_KEY", "human_task.assignee"),
        ("human_task: {escalation: {after: 1h}}", "E_STEP_KEY", "human_task.escalation"),
        ("human_task: {spec: {escalation_mode: both}}", "E_SPEC_OPTION", "human_task.spec.escalation_mode"),
        ("human_task: {form: [{type: string}]}", "E_STEP_KEY", "human_task.form[0]"),
        ("human_task: {form: [{field: f, type: money}]}", "E_STEP_KEY", "human_task.form[0].type"),
        ("human_task: {form: [{field: f, type: enum}]}", "E_STEP_KEY", "human_task.form[0]"),
        ("human_task: {form: [{field: f, options: [a]}]}", "E_STEP_KEY", "human_task.form[0].options"),
        (
            "human_task: {form: [{field: f, type: enum, options: [a], default: b}]}",
            "E_STEP_KEY",
            "human_task.form[0].default",
        ),
        ("human_task: {form: [{field: f}, {field: f}]}", "E_STEP_KEY", "human_task.form[1]"),
        ("compensate: {spec: {idempotent: true}}", "E_STEP_KEY", "compensate"),
        ("compensate: {tool: {kind: noop}, spec: {idempotent: maybe}}", "E_SPEC_OPTION", "compensate.spec.idempotent"),
        ("on_event: {spec: {interrupting: true}}", "E_STEP_KEY", "on_event"),
        ("on_event: [{then: []}]", "E_STEP_KEY", "on_event[0]"),
        ("on_event: [{event: e}]", "E_STEP_KEY", "on_event[0]"),
        ("on_event: [{event: e, when: x, then: []}]", "E_GUARD_LITERAL", "on_event[0].when"),
        ("on_event: [{event: e, then: [{next: {next: end}}]}]", "E_RULE_SHAPE", "on_event[0].then[0].next"),
    ],
)
def test_a_malformed_block_is_refused_at_its_place(text: str, code: str, place: str) -> None:
    _, found = read(text)

    assert [(item.code, item.path) for item in found] == [(code, place)]
