"""Forks and joins, cancel lists and explicit ends (ROUTE-08, ROUTE-11, O-01, beyond.md §1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.engine import admission
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Token
from noetl.engine.scopes import token_of
from noetl.events.outcomes import Error
from noetl.events.steps import CtxPatched, StepFailed
from tests.engine_script import Conversation
from tests.narrowing import payload, payloads

PY = "tool: {kind: python, code: x}"
FIXTURE = Path(__file__).parent.parent / "fixtures" / "F-R-JOIN.yaml"


def branches(join: str, *names: str, more: str = "", to: str = "merge") -> str:
    """A fork into steps of these names, each of which sends {name: its result} to `merge`."""
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    text = f"workflow:\n  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n"
    for name in names:
        args = f'{{{name}: "{{{{ event.result }}}}", last: {name}, deep: {{{name}: 1}}}}'
        text += f"  - step: {name}\n    {PY}\n    next: {{arcs: [{{step: {to}, args: {args}}}]}}\n"
    return text + f"  - step: merge\n    spec: {{join: {join}}}\n    {PY}\n" + more


def begun(text: str, **payload: Any) -> Conversation:
    talk = Conversation(text)
    talk.start(**payload)
    return talk


@pytest.mark.req("ROUTE-11")
@pytest.mark.parametrize(("skip_b", "arrived"), [(False, {"a": 1, "b": 2}), (True, {"a": 1})])
def test_the_fixture_join_runs_once_even_if_a_branch_ended_early(skip_b: bool, arrived: dict[str, int]) -> None:
    talk = begun(FIXTURE.read_text(), skip_b=skip_b)
    talk.done("a", 1)
    if not skip_b:
        assert "merge#1" not in talk.names
        talk.done("b", 2)

    assert talk.run("merge").token.args == arrived
    talk.done("merge", sum(arrived.values()))
    assert talk.ran().count("merge") == 1
    assert talk.status == "completed"


@pytest.mark.req("ROUTE-11", "O-01")
def test_the_joined_run_sees_its_inputs_in_arrival_order() -> None:
    talk = begun(branches("all", "a", "b", "c"))

    talk.done("b", 2)
    talk.done("c", 3)
    talk.done("a", 1)

    run = talk.run("merge")
    assert run.token.args == {"a": 1, "b": 2, "c": 3, "last": "a", "deep": {"a": 1, "b": 1, "c": 1}}
    inputs = token_of(talk.execution, run)["inputs"]
    assert [one["from"] for one in inputs] == ["b", "c", "a"]
    assert inputs[0]["args"] == {"b": 2, "last": "b", "deep": {"b": 1}}


@pytest.mark.req("O-01")
@pytest.mark.parametrize(
    ("join", "needed"),
    [("any", 1), ("{count: 2}", 2), ("all", 3), ("active", 3), ("{mode: any}", 1)],
)
def test_a_quorum_join_runs_once_and_late_tokens_are_dropped(join: str, needed: int) -> None:
    talk = begun(branches(join, "a", "b", "c"))

    for number, name in enumerate(["a", "b", "c"], 1):
        assert ("merge#1" in talk.names) is (number > needed)
        talk.done(name)

    assert talk.ran().count("merge") == 1
    assert talk.dropped() == [("merge", "late")] * (3 - needed)
    talk.done("merge")
    assert talk.status == "completed"
    assert talk.execution.held.forks == {}


def test_a_token_without_a_group_passes_a_join_alone() -> None:
    talk = begun(
        f"workflow:\n  - {{step: start, {PY}, next: {{arcs: [{{step: merge, args: {{n: 1}}}}]}}}}\n"
        f"  - step: merge\n    spec: {{join: all}}\n    {PY}\n"
    )

    talk.done("start")

    assert token_of(talk.execution, talk.run("merge"))["inputs"] == [{"from": "start", "args": {"n": 1}}]


def test_admission_of_a_join_sees_all_its_inputs() -> None:
    rule = '{when: "{{ token.inputs | length == 2 and args.a == 1 }}", then: {allow: true}}'
    text = branches("all", "a", "b").replace("{join: all}", f"{{join: all, policy: {{admit: {{rules: [{rule}]}}}}}}")
    talk = begun(text)

    talk.done("a", 1)
    talk.done("b", 2)

    assert talk.ran().count("merge") == 1


INNER = f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: left}}, {{step: right}}]}}
  - step: left
    {PY}
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: l1}}, {{step: l2}}]}}
  - {{step: l1, {PY}, next: {{arcs: [{{step: inner}}]}}}}
  - {{step: l2, {PY}, next: {{arcs: [{{step: inner}}]}}}}
  - step: inner
    spec: {{join: all}}
    {PY}
    next: {{arcs: [{{step: outer}}]}}
  - {{step: right, {PY}, next: {{arcs: [{{step: outer}}]}}}}
  - step: outer
    spec: {{join: all}}
    {PY}
"""


@pytest.mark.req("O-01")
def test_the_joined_token_belongs_to_the_enclosing_group() -> None:
    talk = begun(INNER)
    talk.done("left")
    talk.done("l1")
    talk.done("right")
    assert talk.running() == ["l2#1"], "the outer join waits for what descends from left"
    talk.done("l2")
    assert talk.running() == ["inner#1"], "the outer join waits for the token that was joined"
    talk.done("inner")

    assert talk.running() == ["outer#1"]
    talk.done("outer")
    assert talk.status == "completed"


@pytest.mark.req("O-01")
def test_an_active_join_does_not_wait_for_tokens_that_cannot_arrive() -> None:
    side = f"  - {{step: gone, {PY}}}\n"
    text = branches("active", "a", "b", "c", more=side).replace(
        "- step: c\n    tool: {kind: python, code: x}\n    next: {arcs: [{step: merge",
        "- step: c\n    tool: {kind: python, code: x}\n    next: {arcs: [{step: gone}, {step: merge",
    )
    talk = begun(text)
    talk.done("a")
    talk.done("b")
    assert "merge#1" not in talk.names, "c may still come"
    talk.done("c")

    assert talk.running() == ["gone#1", "merge#1"]


@pytest.mark.req("O-01")
def test_two_joins_that_wait_for_each_other_fail() -> None:
    text = branches("all", "a", "b", more=f"  - step: other\n    spec: {{join: all}}\n    {PY}\n").replace(
        'b: "{{ event.result }}"', "n: 1"
    )
    text = text.replace("{step: merge, args: {n: 1", "{step: other, args: {n: 1")
    talk = begun(text)

    talk.done("a")
    talk.done("b")

    failed = [one.error for one in payloads(talk.log, StepFailed)]
    assert [error.kind for error in failed] == ["join.unfilled", "join.unfilled"]
    assert 'others of its group wait at "other"' in failed[0].message
    assert talk.status == "failed"


@pytest.mark.req("O-01")
def test_tokens_of_one_arc_form_a_group_and_each_runs() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{arcs: [{{step: work, spec: {{tokens: 3}}}}]}}
  - {{step: work, {PY}, next: {{arcs: [{{step: merge}}]}}}}
  - step: merge
    spec: {{join: {{count: 3}}}}
    {PY}
"""
    )

    assert talk.running() == ["work#1", "work#2", "work#3"]
    for name in talk.running():
        talk.done(name)
    assert talk.running() == ["merge#1"]


BLOCK = f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}
  - {{step: one, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a1}}, {{step: slow}}]}}}}
  - {{step: two, {PY}, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a2}}, {{step: b2}}]}}}}
  - {{step: a1, {PY}, next: {{arcs: [{{step: merge}}]}}}}
  - {{step: slow, {PY}, next: {{arcs: [{{step: merge}}]}}}}
  - {{step: a2, {PY}, next: {{arcs: [{{step: merge}}]}}}}
  - {{step: b2, {PY}, next: {{arcs: [{{step: merge}}]}}}}
  - step: merge
    spec: {{join: {{mode: any, rest: block}}}}
    {PY}
"""


@pytest.mark.req("O-01")
def test_a_blocking_join_handles_one_group_at_a_time() -> None:
    talk = begun(BLOCK)
    talk.done("two")
    talk.done("a1")
    assert talk.ran().count("merge") == 1
    talk.done("a2")
    assert talk.ran().count("merge") == 1, "slow of the first group is still out"
    talk.done("slow")

    assert talk.ran().count("merge") == 2


@pytest.mark.req("O-01")
def test_an_arc_can_cancel_tokens_of_other_steps_with_their_orders() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}, {{step: c}}]}}
  - {{step: a, {PY}, next: {{arcs: [{{step: b, spec: {{cancel: [b]}}}}]}}}}
  - {{step: b, {PY}}}
  - {{step: c, {PY}}}
"""
    )
    talk.claim("b")
    order_id = talk.run("b").lease.order_id
    decision = talk.decide(_report(talk, "a"))

    assert talk.dropped() == [("b", "cancelled")]
    assert order_id in {getattr(effect, "order_id", None) for effect in decision.effects}
    assert talk.running() == ["b#2", "c#1"], "the new token goes to the very step that was cleared"


def _report(talk: Conversation, name: str) -> Any:
    from noetl.engine.commands import RecordReport
    from noetl.events.steps import StepDone

    talk.claim(name)
    report = talk.report_of(name, *talk.task(name), StepDone())
    return RecordReport(at=talk.clock.now(), report=report)


def test_an_arc_can_cancel_the_whole_execution() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}
  - {{step: a, {PY}, next: {{arcs: [{{step: b, spec: {{cancel: execution}}}}]}}}}
  - {{step: b, {PY}}}
"""
    )

    talk.done("a")

    assert talk.status == "cancelled"
    assert talk.ran() == ["start", "a", "b"]
    assert talk.types()[-2:] == ["workflow.finished", "playbook.processed"]


def test_a_step_that_ends_the_execution_cancels_all_others_and_completes_it() -> None:
    talk = begun(
        f"""
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}
  - step: a
    spec: {{end: execution}}
    set_ctx: {{why: "{{{{ event.result }}}}"}}
    {PY}
  - {{step: b, {PY}}}
"""
    )

    talk.done("a", "enough")

    assert talk.status == "completed"
    assert talk.dropped() == [("b", "ended")]
    assert talk.execution.variables.ctx == {"why": "enough"}
    assert list(talk.execution.outputs.ends) == ["a"]


@pytest.mark.req("ROUTE-08")
def test_fail_fast_cancels_everything_at_the_first_unhandled_failure() -> None:
    talk = begun("executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n" + branches("all", "a", "b", "c"))
    talk.done("a")
    talk.failed("b")

    assert talk.status == "failed"
    assert sorted(talk.dropped()) == [("c", "cancelled"), ("merge", "cancelled")]


@pytest.mark.req("SCOPE-07")
def test_concurrent_writes_of_one_key_are_serialised_and_linked() -> None:
    text = branches("all", "a", "b").replace(
        "    next: {arcs: [{step: merge", '    set_ctx: {k: "{{ event.result }}"}\n    next: {arcs: [{step: merge'
    )
    talk = begun(text)

    talk.done("b", 2)
    talk.done("a", 1)

    first, second = [event for event in talk.log if event.event_type == "ctx.patched"]
    assert talk.execution.variables.ctx == {"k": 1}
    assert payload(second, CtxPatched).previous == {"k": first.event_id}


def test_the_cost_per_token_does_not_grow_with_the_group() -> None:
    """Counted, not searched: arrivals of a large group touch one entry each."""
    talk = begun(
        """
executor: {spec: {policy: {limits: {max_step_runs: 100000}}}}
workflow:
  - step: start
    next: {arcs: [{step: work, spec: {tokens: 400}}]}
  - {step: work, next: {arcs: [{step: merge}]}}
  - {step: merge, spec: {join: all}}
"""
    )

    assert talk.status == "completed"
    assert len(talk.payloads("join.filled")[0].tokens) == 400


@pytest.mark.req("ROUTE-10", "O-01")
def test_a_join_that_fails_back_to_itself_ends_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task runs in such a round: without a bound, one decision goes on until the memory of the server is used up."""
    failed: list[Token] = []

    def counted(draft: Draft, token: Token, failure: Error, about: dict[str, Any]) -> Decision:
        failed.append(token)
        assert len(failed) < 100, "more failed joins than the budget has step runs"
        return fail_join(draft, token, failure, about)

    fail_join = admission._failed_join
    monkeypatch.setattr(admission, "_failed_join", counted)
    talk = Conversation(
        """
executor: {spec: {policy: {limits: {max_step_runs: 20}}}}
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    spec: {join: {count: 2}}
    tool: {kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: a, when: "{{ true }}"}, {step: b, when: "{{ true }}"}]}
  - step: b
"""
    )

    talk.start()
    talk.done("start")

    scheduled = [event for event in talk.log if event.event_type == "step.scheduled"]
    assert (talk.status, len(scheduled)) == ("failed", 20)
    assert talk.execution.lifecycle.error is not None
