"""Cycles: the reason why each one ends is named, and one without a reason is reported."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.proving.certificate import Certificate, analyse
from noetl.net.net import Timer, Transition
from noetl.net.routing import Admission, AdmitRule
from noetl.net.task import Directive, Mutations, Policy, Retry, Rule, Task
from noetl.templates.values import Authored
from tests.language.proving.nets import arc, net, step

CODE = "W_CYCLE_UNBOUNDED"
NO_END = "W_NO_END"


def task(name: str, *rules: Rule, **more: Any) -> Task:
    return Task(name=name, kind="noop", policy=Policy(rules=rules) if rules else None, **more)


def rule(when: str | None = None, do: Directive = Directive.CONTINUE, **more: Any) -> Rule:
    sets = {key: Authored(value) for key, value in more.items() if key.startswith("set_")}
    kept = {key: value for key, value in more.items() if not key.startswith("set_")}
    mutations = Mutations(**sets) if sets else None
    return Rule(when=None if when is None else Authored(when), do=do, mutations=mutations, **kept)


def proof(*steps: Transition, **more: Any) -> Certificate:
    return analyse(net(*steps, **more), {})


def is_endless(certificate: Certificate) -> bool:
    return any(finding.code == CODE for finding in certificate.findings)


COUNTING = task("count", rule(set_ctx={"n": "{{ ctx.n | default(0) + 1 }}"}))


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (step("a", arc("a", "{{ ctx.n < 3 }}"), tasks=(COUNTING,)), "ctx.n changes"),
        (step("a", arc("a", "{{ args.n < 3 }}", args=Authored({"n": "{{ args.n + 1 }}"}))), "args.n changes"),
        (step("a", arc("a", "{{ n < 3 }}", args=Authored({"n": "{{ n + 1 }}"}))), "args.n changes"),
        (step("a", arc("a", "{{ event.result.state == 'RUNNING' }}")), "depends on results (event.result.state)"),
        (step("a", arc("a", "{{ a.data.more }}")), "depends on results (a.data.more)"),
        (step("a", arc("z", "{{ ctx.n > 3 }}"), arc("a"), tasks=(COUNTING,)), "ctx.n changes"),
        (step("a", arc("a", "{{ event.name == 'step.failed' }}"), arc("z")), "only after a failure"),
        (step("a", arc("a"), timer=Timer(id=Authored("t"), duration=Authored("1h"))), "a waits"),
        (step("a", arc("a"), quotas={"max_runs": 5}), "quotas.max_runs"),
        (step("a", arc("a", dedupe=Authored({"key": "{{ args.id }}"}))), "dedupe"),
        (
            step(
                "a",
                arc("a"),
                tasks=(COUNTING,),
                admission=Admission(rules=(AdmitRule(when=Authored("{{ ctx.n < 3 }}"), allow=True),)),
            ),
            "ctx.n changes",
        ),
        (step("a", arc("a", "{{ now() < ctx.until }}")), "depends on the time"),
    ],
)
@pytest.mark.req("ADV-06", "ROUTE-10")
def test_the_reason_why_a_cycle_ends_is_named(around: Transition, why: str) -> None:
    certificate = proof(step("start", arc("a")), around, step("z"))

    assert not is_endless(certificate)
    assert [reason.cycle for reason in certificate.reasons] == [("a",)]
    assert why in certificate.reasons[0].why


@pytest.mark.parametrize(
    "around",
    [
        step("a", arc("a")),
        step("a", arc("a", "{{ workload.again }}")),
        step("a", arc("a", "{{ again }}")),
        step("a", arc("a", "{{ ctx.other < 3 }}"), tasks=(COUNTING,)),
        step("a", arc("a", "{{ start.data.more }}")),  # start is not in the cycle: its result stays what it was
        step("a", arc("a", "{{ event.name == 'step.done' }}"), arc("z", "{{ event.name == 'step.failed' }}")),
        step("a", arc("a", "{{ ctx.n < 3 }}"), arc("a"), tasks=(COUNTING,)),  # either way it goes round
    ],
)
@pytest.mark.req("ADV-06", "ROUTE-10")
def test_a_cycle_whose_guards_never_change_is_reported(around: Transition) -> None:
    certificate = proof(step("start", arc("a")), around, step("z"), workload={"again": True})

    assert [finding.code for finding in certificate.findings if finding.code in (CODE, NO_END)] in ([CODE], [NO_END])


def test_an_endless_cycle_is_reported_once() -> None:
    certificate = proof(step("start", arc("a")), step("a", arc("b")), step("b", arc("a")))

    assert [finding.code for finding in certificate.findings] == [NO_END]
    assert certificate.verdict == "unsound"
    assert certificate.reasons == ()


@pytest.mark.req("ADV-06")
def test_a_terminating_cycle_does_not_hide_an_endless_one() -> None:
    certificate = proof(
        step("start", arc("a")),
        step("a", arc("b")),
        step("b", arc("a", "{{ event.result.more }}"), arc("c")),
        step("c", arc("b", "{{ workload.again }}"), arc("z")),
        step("z"),
    )

    [finding] = [f for f in certificate.findings if f.code == CODE]
    assert finding.message == "nothing was found that ends the cycle through a, b, c"
    assert certificate.reasons == ()


JUMP, BREAK, FAIL = Directive.JUMP, Directive.BREAK, Directive.FAIL


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ((task("get"), task("again", rule("{{ outcome.result.more }}", JUMP, to="get"))), "depends on results"),
        (
            (
                task("get", rule(set_iter={"more": "{{ outcome.result.x }}"})),
                task("again", rule("{{ iter.more }}", JUMP, to="get")),
            ),
            "iter.more changes",
        ),
        ((task("get"), task("again", rule("{{ get.data.more }}", JUMP, to="get"), rule(None, BREAK))), "get.data.more"),
        ((task("get"), task("again", rule("{{ _prev.done }}", BREAK), rule(None, JUMP, to="get"))), "_prev.done"),
        ((task("get"), task("again", rule("{{ outcome.status == 'error' }}", JUMP, to="get"))), "only after an error"),
    ],
)
@pytest.mark.req("ADV-06", "PIPE-03")
def test_the_reason_why_a_jump_cycle_ends_is_named(tasks: tuple[Task, ...], why: str) -> None:
    certificate = proof(step("start", tasks=tasks))

    assert not is_endless(certificate)
    assert certificate.reasons[0].cycle == ("start.get", "start.again")
    assert why in certificate.reasons[0].why


@pytest.mark.parametrize(
    "tasks",
    [
        (task("get"), task("again", rule(None, JUMP, to="get"))),
        (task("get"), task("again", rule("{{ workload.more }}", JUMP, to="get"))),
        (task("get"), task("again", rule("{{ iter.more }}", JUMP, to="get"))),
        # leaving on errors is no plan for ending a cycle of successes
        (task("get", rule("{{ outcome.status == 'error' }}", FAIL)), task("again", rule(None, JUMP, to="get"))),
        # both ways stay inside
        (
            task("get", rule("{{ outcome.result.x }}", JUMP, to="again")),
            task("mid"),
            task("again", rule(None, JUMP, to="get")),
        ),
    ],
)
@pytest.mark.req("ADV-06", "PIPE-07")
def test_a_jump_cycle_without_a_reason_is_reported(tasks: tuple[Task, ...]) -> None:
    assert is_endless(proof(step("start", tasks=tasks)))


@pytest.mark.req("ADV-06", "POL-05")
def test_a_retry_is_bounded_by_its_attempts() -> None:
    retried = rule("{{ outcome.status == 'error' }}", Directive.RETRY, retry=Retry(attempts=Authored(5)))

    certificate = proof(step("start", tasks=(task("get", retried),)))

    assert certificate.findings == ()


@pytest.mark.req("ADV-06", "PIPE-03")
def test_a_task_that_is_always_jumped_over_is_unreachable() -> None:
    jumping = (task("a", rule(None, JUMP, to="c")), task("b"), task("c"))
    guarded = (task("a", rule("{{ iter.x }}", JUMP, to="c")), task("b"), task("c"))

    [finding] = proof(step("start", tasks=jumping)).findings
    assert finding.code == "W_UNREACHABLE"
    assert 'task "b"' in finding.message
    assert proof(step("start", tasks=guarded)).findings == ()


@pytest.mark.req("ADV-06")
def test_generated_tasks_are_never_reported_as_unreachable() -> None:
    """A merge point behind bodies that all break is the compiler's business, not the author's."""
    generated = (task("a", rule(None, BREAK)), task("x__merge", generated="choose"))

    assert proof(step("start", tasks=generated)).findings == ()
