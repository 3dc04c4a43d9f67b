"""Human tasks: who may do what, what is filled in, and what time does to them (HUM-01 to HUM-04)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.waits.human_task_actions import fill_form
from noetl.events.orders import ReportResult
from tests.engine.waiting import Waiting
from tests.fixtures.running import fixture

MANAGER, DIRECTOR = ("finance_manager",), ("finance_director",)


def asked() -> Waiting:
    talk = Waiting(fixture("F-R-HUMAN"))
    talk.start()
    return talk


@pytest.mark.req("HUM-01", "F-R-HUMAN")
@pytest.mark.parametrize(("decision", "step"), [("approve", "process"), ("reject", "reject")])
def test_completing_a_task_continues_with_its_form_values(decision: str, step: str) -> None:
    talk = asked()
    assert talk.types(of="manager_approval")[-1] == "human.created"
    task_id = talk.task_id

    talk.act("complete", values={"decision": decision}, roles=MANAGER)

    assert talk.ran()[-1] == step
    assert talk.execution.outputs.results["manager_approval"].result == {"decision": decision}
    done = talk.tasks[task_id]
    assert (done.state, done.completed_by, done.result) == ("completed", "ann", {"decision": decision})


@pytest.mark.req("HUM-02")
def test_only_a_role_holder_can_claim_and_only_the_claimant_can_release() -> None:
    talk = asked()

    assert talk.act("claim", "bob", roles=("sales",)).verdict is ReportResult.FORBIDDEN
    assert talk.act("claim", roles=MANAGER).verdict is ReportResult.ACCEPTED
    assert talk.act("claim", roles=MANAGER).verdict is ReportResult.DUPLICATE
    assert talk.act("claim", "bob", roles=MANAGER).verdict is ReportResult.CONFLICT
    assert talk.act("release", "bob", roles=MANAGER).verdict is ReportResult.FORBIDDEN
    assert talk.act("complete", "bob", values={"decision": "approve"}, roles=MANAGER).verdict is ReportResult.CONFLICT
    assert talk.act("release").verdict is ReportResult.ACCEPTED
    assert talk.act("release").verdict is ReportResult.CONFLICT
    assert talk.act("claim", "bob", roles=MANAGER).verdict is ReportResult.ACCEPTED

    assert [one.actor for one in talk.payloads("human.claimed")] == ["ann", "bob"]
    assert talk.payloads("human.released")[0].actor == "ann"


@pytest.mark.req("HUM-02")
def test_an_administrator_releases_what_another_user_has_claimed_and_can_do_no_more() -> None:
    talk = asked()
    talk.act("claim", roles=MANAGER)

    refused = talk.act("release", "bob", roles=MANAGER)
    outdated = talk.act("release", "root", is_admin=True, version=1)
    completed = talk.act("complete", "root", values={"decision": "approve"}, is_admin=True)
    released = talk.act("release", "root", is_admin=True)

    assert (refused.verdict, outdated.verdict) == (ReportResult.FORBIDDEN, ReportResult.CONFLICT)
    assert "claimed by ann: only they or an administrator can release it" in str(refused.detail)
    assert (completed.verdict, released.verdict) == (ReportResult.CONFLICT, ReportResult.ACCEPTED)
    assert [one.actor for one in talk.payloads("human.released")] == ["root"]
    assert talk.act("claim", "root", is_admin=True).verdict is ReportResult.FORBIDDEN
    assert talk.act("claim", "bob", roles=MANAGER).verdict is ReportResult.ACCEPTED


@pytest.mark.req("HUM-02")
def test_a_claim_is_worth_nothing_once_its_user_has_lost_the_role() -> None:
    talk = asked()
    talk.act("claim", roles=MANAGER)

    completed = talk.act("complete", values={"decision": "approve"}, roles=("sales",))
    commented = talk.act("comment", text="mine", roles=("sales",))

    assert (completed.verdict, commented.verdict) == (ReportResult.FORBIDDEN, ReportResult.FORBIDDEN)
    assert "human role finance_manager, which you do not act in" in str(completed.detail)
    assert talk.act("release", roles=("sales",)).verdict is ReportResult.ACCEPTED
    assert talk.act("complete", "bob", values={"decision": "reject"}, roles=MANAGER).verdict is ReportResult.ACCEPTED


@pytest.mark.req("HUM-02")
def test_completing_a_task_twice_is_a_conflict_that_names_the_first_user() -> None:
    talk = asked()
    task_id = talk.task_id
    talk.act("complete", values={"decision": "approve"}, roles=MANAGER)

    again = talk.act("complete", "bob", task_id=task_id, values={"decision": "reject"}, roles=MANAGER)

    assert again.verdict is ReportResult.CONFLICT
    assert "completed by ann" in (again.detail or "")


@pytest.mark.req("HUM-02")
def test_users_with_the_role_can_comment_and_the_history_names_each_actor() -> None:
    talk = asked()
    task_id = talk.task_id

    assert talk.act("comment", "bob", roles=("sales",), text="let me").verdict is ReportResult.FORBIDDEN
    assert talk.act("comment", roles=MANAGER, text="  ").verdict is ReportResult.INVALID
    assert talk.act("comment", roles=MANAGER, text="too dear?").verdict is ReportResult.ACCEPTED
    talk.act("claim", roles=MANAGER)
    talk.act("complete", values={"decision": "approve"}, roles=MANAGER)

    told = [(one.what, one.actor, one.text) for one in talk.tasks[task_id].history]
    assert told == [("commented", "ann", "too dear?"), ("claimed", "ann", ""), ("completed", "ann", "")]


@pytest.mark.req("HUM-01")
def test_a_task_carries_its_description_and_decision_data() -> None:
    body = "title: t, description: 'Over {{ workload.limit }}.', data: {rows: '{{ workload.rows }}'}"
    talk = Waiting(f"workload: {{limit: 5, rows: [1, 2]}}\nworkflow: [{{step: start, human_task: {{{body}}}}}]")
    talk.start()

    task = talk.tasks[talk.task_id]
    assert (task.asked.description, task.asked.data) == ("Over 5.", {"rows": [1, 2]})


@pytest.mark.req("HUM-01")
def test_task_data_over_the_size_limit_is_refused() -> None:
    talk = Waiting("workflow: [{step: start, human_task: {title: t, data: \"{{ 'a' * 70000 }}\"}}]")
    talk.start()

    assert "human_task.data is over 65536 bytes" in str(talk.payloads("step.failed")[0].error)


@pytest.mark.req("HUM-02")
def test_a_task_for_a_named_user_is_reserved_for_that_user() -> None:
    talk = Waiting("workflow: [{step: start, human_task: {title: t, assignee: {user: ann}}}]")
    talk.start()

    refused = talk.act("complete", "bob", roles=("ann",))

    assert (refused.verdict, refused.detail) == (ReportResult.FORBIDDEN, 'task "t" is for user ann')
    assert talk.act("complete", "ann").verdict is ReportResult.ACCEPTED


@pytest.mark.req("HUM-02")
def test_an_action_on_an_outdated_task_version_is_a_conflict() -> None:
    talk = asked()
    talk.act("claim", version=1, roles=MANAGER)

    assert talk.act("release", version=1).verdict is ReportResult.CONFLICT
    assert talk.act("release", version=2).verdict is ReportResult.ACCEPTED
    assert talk.act("claim", task_id="nobody's").verdict is ReportResult.NOT_FOUND


@pytest.mark.req("HUM-03")
def test_an_invalid_form_names_field_and_options_and_leaves_the_task_open() -> None:
    talk = asked()

    wrong = talk.act("complete", values={"decision": "maybe", "why": "because"}, roles=MANAGER)

    assert (wrong.verdict, wrong.events) == (ReportResult.INVALID, ())
    told = [(one.field, one.found, one.allowed) for one in wrong.problems]
    assert told == [
        ("why", "there is no such field", "the form has decision"),
        ("decision", '"maybe"', "one of approve, reject is allowed"),
    ]
    assert talk.tasks[talk.task_id].state == "open"


FIELDS: list[dict[str, Any]] = [
    {"field": "e", "type": "enum", "options": [1, "a"]},
    {"field": "s", "type": "string"},
    {"field": "n", "type": "number"},
    {"field": "i", "type": "integer", "default": 3},
    {"field": "b", "type": "boolean"},
    {"field": "d", "type": "date"},
    {"field": "t", "type": "text", "required": True},
]


@pytest.mark.req("HUM-03")
@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"e": 1, "s": "x", "n": 1.5, "i": 2, "b": False, "d": "2025-01-31", "t": "x"}, []),
        ({"t": "x"}, []),
        ({"e": "1", "t": "x"}, ["e"]),
        ({"e": True, "t": "x"}, ["e"]),
        ({"n": "1", "i": 1.5, "b": 1, "d": "31.1.2025", "s": 5}, ["s", "n", "i", "b", "d", "t"]),
        ({"n": float("nan"), "d": "2025-02-30", "t": ""}, ["n", "d", "t"]),
        ({"i": True, "n": True, "t": None}, ["n", "i", "t"]),
        ({"n": 10**400, "t": "x"}, ["n"]),
        ({"n": float("-inf"), "t": "x"}, ["n"]),
    ],
)
def test_all_form_problems_are_reported_at_once(values: dict[str, Any], wrong: list[str]) -> None:
    filled, problems = fill_form(FIELDS, values)

    assert [one.field for one in problems] == wrong
    assert wrong or filled == {"i": 3, **values}


@pytest.mark.req("HUM-04")
def test_escalation_moves_a_task_to_its_new_assignee() -> None:
    talk = asked()
    talk.act("claim", roles=MANAGER)
    talk.wake(48 * 3600)

    task = talk.tasks[talk.task_id]
    assert (task.role, task.state, task.claimed_by, task.escalated, task.overdue) == (
        "finance_director", "open", None, True, True,
    )  # fmt: skip
    assert talk.act("complete", values={"decision": "approve"}, roles=MANAGER).verdict is ReportResult.FORBIDDEN
    assert talk.act("complete", values={"decision": "approve"}, roles=DIRECTOR).verdict is ReportResult.ACCEPTED


@pytest.mark.req("HUM-04")
def test_a_task_is_overdue_once_and_escalation_can_only_notify() -> None:
    talk = Waiting(
        """
workflow:
  - step: start
    human_task:
      title: t
      assignee: {role: a}
      due_date: 1h
      escalation: {after: 2h, to_user: boss}
      spec: {escalation_mode: notify}
"""
    )
    talk.start()

    assert [talk.sleep(), talk.sleep()] == [3600, 3600]
    talk.wake(1_000_000)

    assert talk.event_names("human.") == ["human.created", "human.overdue", "human.escalated"]
    task = talk.tasks[talk.task_id]
    assert (task.role, task.user, task.overdue, task.escalated) == ("a", None, True, True)
    assert talk.payloads("human.escalated")[0].user == "boss"


@pytest.mark.req("HUM-04", "ADV-01")
@pytest.mark.parametrize("event", ["human.overdue", "human.escalated"])
def test_the_step_of_a_task_can_handle_overdue_and_escalation_events(event: str) -> None:
    talk = Waiting(
        f"""
workflow:
  - step: start
    human_task: {{title: t, assignee: {{role: a}}, due_date: 1h, escalation: {{after: 1h, to_role: b}}}}
    on_event: [{{event: {event}, then: [{{name: remind, kind: python, code: x}}]}}]
"""
    )
    talk.start()
    talk.wake(3600)

    [started] = talk.payloads("handler.started")
    assert (started.event.name, started.task) == (event, "remind")
    assert talk.tasks[talk.task_id].state == "open"


@pytest.mark.req("HUM-01", "TMR-02")
def test_a_task_is_withdrawn_when_its_step_continues_by_another_wait() -> None:
    talk = Waiting(
        "workflow: [{step: start, human_task: {title: t, assignee: {role: a}, due_date: 5h}, timer: {duration: 1h}}]"
    )
    talk.start()
    task_id = talk.task_id

    talk.sleep()

    assert talk.tasks[task_id].state == "withdrawn"
    assert talk.act("complete", task_id=task_id, roles=("a",)).verdict is ReportResult.CONFLICT
    assert talk.execution.open_waits.due_times.due == {}


@pytest.mark.req("HUM-02")
def test_a_comment_sent_with_the_decision_precedes_it_in_the_history() -> None:
    talk = asked()
    task_id = talk.task_id

    refused = talk.act("complete", values={"decision": "reject"}, roles=MANAGER, text="x" * 2_001)
    assert refused.verdict is ReportResult.INVALID
    talk.act("complete", values={"decision": "reject"}, roles=MANAGER, text=" too dear ")

    done = talk.tasks[task_id]
    assert [(one.what, one.text) for one in done.history] == [("commented", "too dear"), ("completed", "")]
    assert (done.state, done.version) == ("completed", 3)
    assert talk.payloads("human.commented")[0].actor == "ann"
