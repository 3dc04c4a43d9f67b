"""What there is to draw: boxes with their contents, and every way between them, whatever construct makes it."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.drawing.drawing import (
    UNKNOWN,
    BoxRole,
    Edge,
    Manner,
    draw,
    guard_words,
    lines_of,
    marks_of,
    ways_of,
    words,
)
from noetl.net.net import HumanTask, Loop, Message, Signal, Timeout, Timer, Transition
from noetl.net.routing import Action, Admission, AdmitRule, Arc, Case, CaseRule, Join, JoinMode, Mode
from noetl.net.task import Directive, Policy, Rule, Task
from noetl.templates.values import Authored
from tests.language.drawing.nets import guard, net, step


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("{{ workload.items }}", "workload.items"),
        ("{{ a }}/{{ b }}", "{{ a }}/{{ b }}"),
        ([1, "{{ x }}"], "[1, x]"),
        (True, "true"),
        (30, "30"),
        ("one\n  two", "one two"),
    ],
)
def test_authored_values_are_shortened(written: object, shown: str) -> None:
    assert words(Authored(written)) == shown


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("event.name == 'loop.done'", "loop.done"),
        ("event.name == \"step.failed\" and event.error.kind == 'timeout'", "step.failed and event.error.kind =="),
        ("event.name in ['step.done', 'loop.done']", "step.done or loop.done"),
        ("ctx.n > 1", "ctx.n > 1"),
    ],
)
def test_guards_on_an_event_show_the_event(condition: str, shown: str) -> None:
    assert guard_words(guard(condition)).startswith(shown)
    assert len(guard_words(guard("ctx.value == " + "x" * 200))) <= 44


def test_the_unguarded_arc_after_guards_is_labelled_else() -> None:
    drawn = ways_of(net(step("start", ("a", "ctx.n > 1"), ("b", "event.name == 'step.failed'"), "c"), step("a")))

    assert [(way.target, way.label, way.manner) for way in drawn] == [
        ("a", "ctx.n > 1", Manner.PLAIN),
        ("b", "step.failed", Manner.FAILURE),
        ("c", "else", Manner.PLAIN),
    ]


def test_an_inclusive_router_has_no_else() -> None:
    start = step("start", ("a", "ctx.n"), "b", mode=Mode.INCLUSIVE)

    assert [way.label for way in ways_of(net(start))] == ["ctx.n", ""]
    assert [(mark.word, mark.text) for mark in marks_of(start)] == [("fork", "every way that holds")]


def test_a_timeout_leads_to_its_alternative() -> None:
    start = step("start", timeout=Timeout(duration=Authored("300s"), on_timeout="alternative", alternative="late"))

    assert ways_of(net(start)) == (Edge("start", "late", "after 300s", Manner.FAILURE),)


def test_case_rules_of_an_older_dialect_are_drawn_as_arcs_and_lines() -> None:
    mail = Task(name="send_email", kind="http")
    case = Case(
        rules=(
            CaseRule(when=guard("workload.notify"), actions=(Action(task=mail),)),
            CaseRule(when=guard("event.name == 'call.done'"), actions=(Action(transition=(Arc(target="done"),)),)),
            CaseRule(actions=(Action(transition=(Arc(target="sorry"),), delay=Authored("5s")),)),
        )
    )
    start = Transition(name="start", case=case)

    assert [(way.target, way.label) for way in ways_of(net(start))] == [
        ("done", "call.done"),
        ("sorry", "else, after 5s"),
    ]
    assert [(line.name, line.note) for line in lines_of(start)] == [("send_email", "http if workload.notify")]


def test_a_computed_target_leads_to_its_candidates_or_to_an_unknown_target() -> None:
    told = Arc(computed=Authored("{{ x }}"), candidates=("a", "b"))
    open_ended = Arc(computed=Authored("{{ x }}"))
    case = Case(rules=(CaseRule(actions=(Action(transition=(told, open_ended)),)),))

    drawn = draw(net(Transition(name="start", case=case), step("a"), step("b")))

    assert [(way.target, way.manner) for way in drawn.ways] == [
        ("a", Manner.COMPUTED),
        ("b", Manner.COMPUTED),
        (UNKNOWN, Manner.COMPUTED),
    ]
    assert drawn.boxes[-1].role is BoxRole.UNKNOWN


@pytest.mark.parametrize(
    ("parts", "word", "text"),
    [
        ({"join": Join(mode=JoinMode.ALL)}, "join", "all branches"),
        ({"join": Join(mode=JoinMode.COUNT, count=2, rest="cancel")}, "join", "2 tokens, cancel the rest"),
        ({"timer": Timer(id=Authored("t"), duration=Authored("1h"))}, "timer", "1h"),
        ({"timer": Timer(id=Authored("t"), until=Authored("{{ ctx.at }}"))}, "timer", "until ctx.at"),
        ({"message": Message(name=Authored("paid"))}, "message", "paid"),
        ({"signal": Signal(name=Authored("stop"))}, "signal", "stop"),
        ({"human_task": HumanTask(title=Authored("Approve"), role=Authored("boss"))}, "human", "Approve, by boss"),
        ({"loop": Loop(items=Authored("{{ w.xs }}"), iterator="x")}, "loop", "each x in w.xs"),
        (
            {"loop": Loop(items=Authored([1]), iterator="x", parallel=True, max_in_flight=Authored(10))},
            "loop",
            "each x in [1], 10 at once",
        ),
        ({"ends_execution": True}, "end", "ends the execution"),
    ],
)
def test_other_parts_of_a_step_are_marked_in_words(parts: dict[str, Any], word: str, text: str) -> None:
    assert [(mark.word, mark.text) for mark in marks_of(step("start", **parts))] == [(word, text)]


def test_unconditional_admission_has_no_mark() -> None:
    everything = Admission(rules=(AdmitRule(allow=True),))
    some = Admission(rules=(AdmitRule(when=guard("workload.go"), allow=True), AdmitRule(allow=False)))

    assert marks_of(step("start", admission=everything)) == ()
    assert [mark.text for mark in marks_of(step("start", admission=some))] == ["if workload.go"]


def test_tasks_show_their_jump_targets() -> None:
    jumping = Policy(rules=(Rule(do=Directive.JUMP, to="store"), Rule(do=Directive.JUMP, to="pages__merge")))
    tasks = (Task(name="route", kind="noop", policy=jumping), Task(name="store", kind="postgres"))

    shown = lines_of(step("start", tasks=tasks))

    assert [(line.name, line.note) for line in shown] == [("route", "noop ↷ store"), ("store", "postgres")]


def test_tasks_generated_from_sugar_are_folded_again() -> None:
    check = Policy(rules=(Rule(when=guard("iter.more")), Rule(do=Directive.JUMP, to="pages__merge")))
    tasks = (
        Task(name="pages__check", kind="noop", policy=check, generated="while"),
        Task(name="fetch", kind="http"),
        Task(name="pick__check", kind="noop", generated="choose"),
        Task(name="big", kind="noop"),
        Task(name="pick__merge", kind="noop", generated="choose"),
        Task(name="pages__merge", kind="noop", generated="while"),
        Task(name="after", kind="noop"),
    )

    shown = lines_of(step("start", tasks=tasks))

    assert [(line.depth, line.name, line.note) for line in shown] == [
        (0, "pages", "while iter.more"),
        (1, "fetch", "http"),
        (1, "pick", "choose"),
        (2, "big", "noop"),
        (0, "after", "noop"),
    ]


def test_generated_task_names_are_hidden() -> None:
    shown = lines_of(step("load", tasks=(Task(name="load_task", kind="http"),)))

    assert [(line.name, line.note) for line in shown] == [("http", "")]


def test_roles_mark_the_start_waits_and_ends() -> None:
    waiting = step("wait", "end", signal=Signal(name=Authored("go")))

    drawn = draw(net(step("start", "wait"), waiting, step("end")))

    assert [box.role for box in drawn.boxes] == [BoxRole.START, BoxRole.WAIT, BoxRole.END]
