"""Routing: events that no arc takes, guards that never decide, arcs that never fire; and the silence otherwise."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.proving.certificate import analyse
from noetl.net.net import Loop, Message, Net, Timer, Transition
from noetl.net.routing import Admission, AdmitRule, Router
from noetl.net.task import Directive, Policy, Rule, Task
from noetl.templates.values import Authored
from noetl.tools.kinds import KINDS
from tests.language.proving.nets import arc, net, step

LOOP = Loop(items=Authored([1, 2]), iterator="x")


def named(event: str) -> str:
    return f"{{{{ event.name == '{event}' }}}}"


def found(first: Transition, code: str) -> list[str]:
    targets = dict.fromkeys(a.target for a in (first.router.arcs if first.router else ()))
    checked: Net = net(first, *(step(target) for target in targets))
    return [finding.message for finding in analyse(checked, {}).findings if finding.code == code]


@pytest.mark.parametrize(
    ("first", "event"),
    [
        (step("start", arc("fix", named("step.failed"))), "step.done"),
        (step("start", arc("a", named("step.done")), loop=LOOP), "loop.done"),
        (
            step("start", arc("a", named("timer.fired")), timer=Timer(id=Authored("t"), cancellable=True)),
            "timer.cancelled",
        ),
        (
            step(
                "start",
                arc("a", named("message.received")),
                message=Message(name=Authored("m"), timeout=Authored("5m")),
            ),
            "message.timeout",
        ),
    ],
)
@pytest.mark.req("ADV-06")
def test_an_event_without_a_matching_arc_is_reported(first: Transition, event: str) -> None:
    [message] = found(first, "W_EVENT_UNROUTED")

    assert f'takes "{event}"' in message


@pytest.mark.parametrize(
    "first",
    [
        step("start"),
        step("start", arc("a")),
        step("start", arc("a", "{{ event.result.ok }}")),  # may be meant to end here (ROUTE-07)
        step("start", arc("a", named("call.done")), loop=LOOP),
        step("start", arc("a", named("step.done")), arc("fix", named("step.failed"))),
        step("start", arc("undo", named("step.failed"), trigger_compensation=True)),  # the last step of a saga
    ],
)
@pytest.mark.req("ADV-06", "ROUTE-07")
def test_a_token_that_may_intentionally_end_is_not_reported(first: Transition) -> None:
    assert found(first, "W_EVENT_UNROUTED") == []


@pytest.mark.parametrize(
    ("guards", "fork", "count"),
    [
        (("{{ ctx.n > 5 }}", "{{ ctx.n > 10 }}"), False, 1),
        (("{{ ctx.n > 10 }}", "{{ ctx.n > 5 }}"), False, 0),
        (("{{ ctx.n > 5 }}", "{{ ctx.n > 10 }}"), True, 0),  # an inclusive router takes both
        ((named("step.done"), "{{ event.name == 'step.done' and ctx.n > 1 }}"), False, 1),
        ((named("step.done"), "{{ ctx.n > 1 }}"), False, 0),  # the second may still take a failure
        (("{{ ctx.a }}", "{{ ctx.b }}"), False, 0),
    ],
)
@pytest.mark.req("ADV-06")
def test_a_guard_after_a_wider_one_is_reported(guards: tuple[str, ...], fork: bool, count: int) -> None:
    first = step("start", *(arc(f"t{i}", guard) for i, guard in enumerate(guards)), fork=fork)

    assert len(found(first, "W_GUARD_OVERLAP")) == count


@pytest.mark.req("ADV-06")
def test_policy_rules_can_shadow_each_other() -> None:
    rules = (
        Rule(when=Authored("{{ outcome.status == 'error' }}"), do=Directive.FAIL),
        Rule(when=Authored("{{ outcome.status == 'error' and outcome.http.status == 404 }}"), do=Directive.CONTINUE),
        Rule(do=Directive.CONTINUE),
    )
    wide = step("start", tasks=(Task(name="t", kind="http", policy=Policy(rules=rules)),))
    narrow = step("start", tasks=(Task(name="t", kind="http", policy=Policy(rules=(rules[1], rules[0], rules[2]))),))

    assert len(found(wide, "W_GUARD_OVERLAP")) == 1
    assert found(narrow, "W_GUARD_OVERLAP") == []


@pytest.mark.req("ADV-06")
def test_an_arc_with_a_false_guard_never_fires() -> None:
    messages = found(step("start", arc("a", "{{ false }}"), arc("b")), "W_UNREACHABLE")

    assert any('arc to "a" can never fire' in message for message in messages)
    assert any('step "a" never runs' in message for message in messages)
    assert not any('"b"' in message for message in messages)


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ((AdmitRule(allow=False),), 1),
        ((AdmitRule(when=Authored("{{ workload.go }}"), allow=True), AdmitRule(allow=False)), 0),
        ((AdmitRule(when=Authored(False), allow=True),), 1),
    ],
)
@pytest.mark.req("ADV-06", "ADM-04")
def test_a_step_that_admits_no_token_never_runs(rules: tuple[AdmitRule, ...], count: int) -> None:
    gated = step("start", admission=Admission(rules=rules))

    assert len(found(gated, "W_UNREACHABLE")) == count


@pytest.mark.req("ADV-06", "ROUTE-05")
def test_an_unguarded_always_arc_handles_failures_too() -> None:
    """A finally-like router: the step behind it is reached on failure as well, so nothing is unrouted."""
    router = Router(arcs=(arc("tidy"),), unguarded_always=True)

    assert found(step("start", router=router), "W_EVENT_UNROUTED") == []


CASE = """
apiVersion: noetl.io/v2
kind: Playbook
name: aliases
path: tests/aliases
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    case:
      - {when: "{{ event.name == 'ERROR' }}", then: {next: failed}}
      - {when: "{{ event.name == 'DONE' }}", then: {next: well}}
  - {step: failed, tool: {kind: noop}}
  - {step: well, tool: {kind: noop}}
"""


@pytest.mark.req("EVT-10", "ADV-06")
@pytest.mark.parametrize(
    ("error", "done"),
    [
        ("call.error", "call.done"),
        ("ToolErrored", "ToolCompleted"),
        ("step.failed", "step.done"),
        ("ToolErrored", "step.exit"),
        ("StepStarted", "ToolCompleted"),
    ],
)
def test_rules_with_legacy_event_names_are_reachable(error: str, done: str) -> None:
    text = CASE.replace("ERROR", error).replace("DONE", done)

    assert [found for found in check(Source("t.yaml", text), kinds=KINDS).diagnostics if found.code[0] == "W"] == []
