"""Resources: limits that wait for themselves."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.proving.certificate import analyse
from noetl.net.net import Concurrency, Emit, Executor, Net
from noetl.net.routing import Action, Case, CaseRule
from noetl.net.task import Task
from noetl.templates.values import Authored
from tests.language.proving.nets import arc, net, step


def limit(count: object = 1, key: str | None = None, **more: Any) -> Concurrency:
    return Concurrency(limit=Authored(count), key=None if key is None else Authored(key), **more)


def calling(path: str = "tests/t", **spec: Any) -> Task:
    return Task(name="call", kind="playbook", inputs=Authored({"path": path}), spec=Authored(spec))


def messages(checked: Net) -> list[str]:
    return [f.message for f in analyse(checked, {}).findings if f.code == "W_RESOURCE_DEADLOCK"]


@pytest.mark.parametrize(
    ("task", "concurrency", "count"),
    [
        (calling(), limit(), 1),
        (calling(), limit(5), 1),  # nesting has no bound
        (calling("tests/other"), limit(), 0),
        (calling("tests/t", **{"async": True}), limit(), 0),
        (calling(), limit(on_limit="drop"), 0),
        (calling(), limit("{{ workload.n }}"), 0),
        (calling(), None, 0),
    ],
)
@pytest.mark.req("ADV-06")
def test_a_playbook_that_waits_for_itself_under_its_own_limit_is_reported(
    task: Task, concurrency: Concurrency | None, count: int
) -> None:
    recursive = net(step("start", tasks=(task,)), executor=Executor(concurrency=concurrency))

    assert len(messages(recursive)) == count


@pytest.mark.req("ADV-06")
def test_a_child_that_waits_for_the_slot_of_its_parent_is_not_reported() -> None:
    """A step's slot belongs to one execution, keyed or not, and the child is another one."""
    assert messages(net(step("start", tasks=(calling(),), concurrency=limit(1, "k")))) == []


def listening(key: str) -> Net:
    hears = CaseRule(when=Authored("{{ event.name == 'ready' }}"), actions=(Action(transition=(arc("z"),)),))
    return net(
        step("start", arc("wait"), arc("tell"), fork=True),
        step("wait", case=Case(rules=(hears,), on_event=True), concurrency=limit(1, "slot")),
        step("tell", emit=(Emit(name="ready"),), concurrency=limit(1, key)),
        step("z"),
        dialect="v2-case",
    )


@pytest.mark.req("ADV-06")
def test_a_slot_held_while_waiting_for_a_step_that_queues_for_it_is_reported() -> None:
    assert len(messages(listening("slot"))) == 1
    assert messages(listening("another")) == []
