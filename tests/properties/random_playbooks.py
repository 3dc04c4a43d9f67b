"""Playbooks made at random, and a worker that acts on them at random."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from noetl.events.envelope import Event
from tests.engine_script import Conversation

NAMES = ("start", "a", "b", "c")
GUARDS = (None, "{{ true }}", "{{ false }}", "{{ ctx.n > 2 }}", "{{ event.name == 'step.failed' }}", "{{ args.x }}")


@st.composite
def arcs(draw: st.DrawFn) -> dict[str, Any]:
    arc: dict[str, Any] = {"step": draw(st.sampled_from(NAMES)), "args": {"x": draw(st.booleans())}}
    guard = draw(st.sampled_from(GUARDS))
    return arc | ({"when": guard} if guard else {})


@st.composite
def steps(draw: st.DrawFn, name: str) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name}
    match draw(st.sampled_from(["none", "noop", "python", "python"])):
        case "noop":
            write = {"do": "continue", "set_ctx": {"n": "{{ (ctx.n | default(0)) + 1 }}"}}
            step["tool"] = {"kind": "noop", "spec": {"policy": {"rules": [{"else": {"then": write}}]}}}
        case "python":
            step["tool"] = [{"name": f"t{i}", "kind": "python", "code": "x"} for i in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        step["next"] = {
            "spec": {"mode": draw(st.sampled_from(["exclusive", "inclusive"]))},
            "arcs": draw(st.lists(arcs(), min_size=1, max_size=3)),
        }
    if draw(st.integers(0, 5)) == 0:
        rule = {"when": "{{ args.x }}", "then": {"allow": True}}
        step["spec"] = {"policy": {"admit": {"rules": [rule]}}}
    return step


@st.composite
def playbooks(draw: st.DrawFn) -> str:
    limits = {"executor": {"spec": {"policy": {"limits": {"max_step_runs": 25, "max_task_runs": 30}}}}}
    return json.dumps(limits | {"workflow": [draw(steps(name)) for name in NAMES]})


def act(talk: Conversation, choose: st.DataObject) -> None:
    """One move of a worker: claim, report a task or an end, lose a lease."""
    name = choose.draw(st.sampled_from(sorted(name for name, run in talk.names.items() if run in open_runs(talk))))
    run = talk.run(name)
    if run.lease.lease_epoch == 0 or choose.draw(st.integers(0, 6)) == 0:
        talk.claim(name)
        return
    following = "t1" if run.progress.position.task == "t0" and len(talk.plan.step(run.step).tasks) > 1 else None
    if following:
        entries = talk.task(name, {"n": 1}, next=following, set_ctx={"n": choose.draw(st.integers(0, 5))})
        report = talk.report_of(name, *entries)
        talk.report(report)
        talk.report(report)
    elif choose.draw(st.booleans()):
        talk.done(name, choose.draw(st.integers()))
    else:
        talk.failed(name)


def open_runs(talk: Conversation) -> set[str]:
    return set(talk.execution.order_states.open.values())


def as_yaml(text: str) -> str:
    document = json.loads(text)
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items())


def random_log(text: str, choose: st.DataObject) -> list[Event]:
    """The log of a playbook whose first thirty outcomes are drawn."""
    talk = Conversation(as_yaml(text))
    talk.start()
    for _ in range(30):
        if not open_runs(talk):
            break
        act(talk, choose)
    return talk.log
