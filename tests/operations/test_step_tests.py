"""One step of a text, run alone: with inputs of one's own, or with those of an earlier run."""

from __future__ import annotations

from typing import Any

from noetl.operations.administration_shapes import Role
from tests.engine_script import playbook
from tests.playbook_runs import Scripted
from tests.server.talking import LONGEST_S, Talk, talking

CHAIN = """
workload: {day: monday}
ctx: {limit: 3}
workflow:
  - step: extract
    tool: {name: extract_rows, kind: python, code: x}
    set_ctx: {limit: 5}
    next: {arcs: [{step: load, args: {target: "{{ workload.day }}"}}]}
  - step: load
    tool:
      name: copy
      kind: python
      code: x
      args:
        {rows: "{{ extract.rows }}", limit: "{{ ctx.limit }}", target: "{{ args.target }}", day: "{{ workload.day }}"}
    next: {arcs: [{step: publish}]}
  - {step: publish, tool: {name: tell, kind: python, code: x}}
  - {step: rest}
executor: {spec: {entry_step: extract}}
"""
BIG = [{"n": n, "text": "x" * 60} for n in range(6_000)]


async def ended_test(talk: Talk, **asked: Any) -> dict[str, Any]:
    """How a test of `load` ended, and what of it."""
    text = playbook(CHAIN).replace("code: x", "code: y")
    begun = await talk.post("/api/executions/step-test", {"source": text, "step": "load", **asked}, status=201)
    ended = await talk.services.listeners.hub.wait_for_end(begun["execution_id"], LONGEST_S)
    assert ended is not None
    detail: dict[str, Any] = await talk.get(f"/api/executions/{begun['execution_id']}")
    return detail


async def test_a_step_runs_alone_with_the_inputs_of_an_earlier_run() -> None:
    tool = Scripted(extract_rows={"rows": 7}, copy={"copied": True})
    async with talking(tools={"python": tool}) as talk:
        earlier = await talk.ran(CHAIN, {"day": "tuesday"})
        told = await talk.get(f"/api/executions/{earlier}/step-inputs", params={"step": "load"})
        before = len(tool.calls)
        detail = await ended_test(talk, inputs=told["inputs"], execution_id=earlier)
        result = await talk.get(f"/api/executions/{detail['execution_id']}/result")
        versions = (await talk.get("/api/catalog/tests/test/versions"))["versions"]
        listed = (await talk.get("/api/executions", params={"path": "tests/test"}))["executions"]

    assert told["inputs"] == {
        "args": {"target": "tuesday"},
        "ctx": {"limit": 5},
        "workload": {"day": "tuesday"},
        "results": {"extract": {"rows": 7}},
    }
    [(task, inputs)] = tool.calls[before:]
    assert (task, inputs["args"]) == ("copy", {"rows": 7, "limit": 5, "target": "tuesday", "day": "tuesday"})
    assert inputs["code"] == "y", "the text of the draft"
    assert (detail["status"], detail["path"], result["result"]) == (
        "completed",
        "tests/test/step-test",
        {"copied": True},
    )
    assert len(versions) == 1
    assert [one["execution_id"] for one in listed] == [earlier], "a test is no run of the playbook"


async def test_given_inputs_override_recorded_ones() -> None:
    tool = Scripted(extract_rows={"rows": BIG})
    async with talking(tools={"python": tool}) as talk:
        earlier = await talk.ran(CHAIN)
        told = await talk.get(f"/api/executions/{earlier}/step-inputs", params={"step": "load"})
        await ended_test(talk, inputs={**told["inputs"], "ctx": {"limit": 9}}, execution_id=earlier)
        await ended_test(talk, inputs={"results": {"extract": {"rows": 1}}, "args": {"target": "here"}})

    assert (told["inputs"]["results"], told["hidden"]) == ({}, ["extract"]), "too large for a form"
    recorded, by_hand = (inputs["args"] for _, inputs in tool.calls[-2:])
    assert (recorded["rows"], recorded["limit"]) == (BIG, 9)
    assert by_hand == {"rows": 1, "limit": None, "target": "here", "day": "monday"}


async def test_a_step_that_cannot_run_alone_is_refused() -> None:
    text = playbook(CHAIN)
    async with talking(tools={"python": Scripted()}) as talk:
        earlier = await talk.ran(CHAIN.replace("entry_step: extract", "entry_step: publish"))
        url = "/api/executions/step-test"
        nowhere = await talk.post(url, {"source": text, "step": "lod"}, status=422)
        bare = await talk.post(url, {"source": text, "step": "rest"}, status=422)
        broken = await talk.post(url, {"source": text.replace("python", "pythn"), "step": "load"}, status=422)
        unseen = await talk.post(url, {"source": text, "step": "load", "execution_id": earlier}, status=422)
        operator = await talk.as_role(Role.OPERATOR)
        forbidden = await operator.post(url, json={"source": text, "step": "load"})

    assert nowhere["detail"] == 'step: this text has no step "lod"; its steps are extract, load, publish, rest'
    assert bare["detail"] == 'step: "rest" runs no tool, so there is nothing to test'
    assert broken["diagnostics"][0]["code"] == "E_TOOL_KIND"
    assert unseen["detail"] == f'step: "load" has not run in execution {earlier}'
    assert forbidden.status_code == 403


async def test_given_results_of_a_loop_are_read_as_those_of_the_run() -> None:
    looped = CHAIN.replace(
        "tool: {name: extract_rows", "loop: {in: [1, 2], iterator: n}\n    tool: {name: extract_rows"
    )
    looped = looped.replace("{{ extract.rows }}", "{{ extract.results[0].data.name }}")
    tool = Scripted(extract_rows={"name": "ann"})
    async with talking(tools={"python": tool}) as talk:
        earlier = await talk.ran(looped)
        results = {"extract": [{"name": "bob"}, {"name": "ann"}]}
        asked = {"source": playbook(looped), "step": "load", "inputs": {"results": results}, "execution_id": earlier}
        begun = await talk.post("/api/executions/step-test", asked, status=201)
        await talk.services.listeners.hub.wait_for_end(begun["execution_id"], LONGEST_S)

    assert [inputs["args"]["rows"] for inputs in tool.inputs_of("copy")] == ["ann", "bob"]
