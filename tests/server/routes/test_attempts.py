"""What each attempt was given, rendered again from the log: it is what its tool really was given (POL-05)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.store.results.files import MemoryResults
from noetl.tools.contract import ToolContext, ToolResult
from tests.playbook_runs import Scripted, broken
from tests.server.talking import Talk, talking

RETRIED = """
workload: {page: 7}
workflow:
  - step: start
    tool:
      - name: first
        kind: python
        code: x
        args: {page: "{{ workload.page }}", at: "{{ _attempt }}"}
      - name: second
        kind: python
        code: x
        args: {before: "{{ _prev }}", token: "{{ iter.token | default('none') }}", n: "{{ _attempt }}"}
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: retry, attempts: 3, set_iter: {token: "new"}, set_ctx: {tried: "{{ _attempt }}"}}
              - else: {then: {do: continue}}
      - {name: third, kind: python, code: x, args: {tried: "{{ ctx.tried }}", both: "{{ [first, second] }}"}}
    next: {arcs: [{step: each, args: {most: "{{ start.n }}"}}]}
  - step: each
    loop: {in: "{{ [10, 20, 30] }}", iterator: x}
    args: {twice: "{{ iter.x * 2 }}"}
    tool:
      - name: work
        kind: python
        code: x
        args: {x: "{{ iter.x }}", at: "{{ iter.index }}", twice: "{{ args.twice }}", most: "{{ args.most }}",
               sum: "{{ ctx.sum | default(0) }}"}
        spec:
          policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ (ctx.sum | default(0)) + iter.x }}"}}}}]}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {sum: "{{ ctx.sum }}"}}}
"""
NESTED = """
workflow:
  - step: start
    loop: {in: "{{ [1, 2] }}", iterator: x, spec: {mode: parallel},
           loop: {in: "{{ [1, 2, 3] }}", iterator: y}}
    tool: {name: work, kind: python, code: x, args: {at: "{{ [iter.parent.x, iter.y, x, y, loop.index] }}"}}
"""
# While `slow` runs, `quick` writes to ctx: a worker sees ctx as of its claim.
BESIDE = """
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: quick}]}
  - step: slow
    tool:
      - {name: one, kind: python, code: x, args: {v: "{{ ctx.v | default('not yet') }}"}}
      - {name: two, kind: python, code: x, args: {v: "{{ ctx.v | default('not yet') }}"}}
  - step: quick
    tool: {name: three, kind: python, code: x}
    set_ctx: {v: written}
"""
CASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workload: {url: here}
workflow:
  - step: start
    tool: {kind: python, code: x, args: {url: "{{ workload.url }}"}}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - set: {seen: "{{ response.n }}"}
          - next: [{step: end}]
  - {step: end, tool: {kind: python, code: x, args: {seen: "{{ ctx.seen }}", n: "{{ start.n }}"}}}
"""


class Recording(Scripted):
    """Keeps what each attempt was given, by its identity."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.given: dict[str, Any] = {}

    async def run(self, inputs: Any, context: ToolContext) -> ToolResult:
        self.given[context.task_run.task_run_id] = msgspec.to_builtins(dict(inputs))
        return await super().run(inputs, context)


async def all_inputs(talk: Talk, execution_id: str) -> dict[str, dict[str, Any]]:
    """By identity, each attempt of a python task."""
    url = f"/api/executions/{execution_id}/attempts"
    attempts = (await talk.get(url))["attempts"]
    return {
        one["task_run_id"]: await talk.get(f"{url}/{one['seq']}/inputs") for one in attempts if one["kind"] == "python"
    }


@pytest.mark.req("POL-05")
@pytest.mark.parametrize("text", [RETRIED, NESTED, BESIDE, CASE], ids=["retried", "nested", "beside", "case"])
async def test_rendered_inputs_equal_those_the_tool_received(text: str) -> None:
    tool = Recording(first={"n": 3}, second=[broken(), broken(), {"n": 5}], third={"n": 6}, work=1, python={"n": 1})
    async with talking(tools={"python": tool}) as talk:
        told = await all_inputs(talk, await talk.ran(text))

    assert {run_id: one["inputs"] for run_id, one in told.items()} == tool.given
    assert len(tool.given) > 1


async def test_an_attempt_is_compared_with_the_previous_one_and_with_another_run() -> None:
    tool = Recording(first={"n": 3}, second=[broken(), {"n": 5}])
    async with talking(tools={"python": tool}) as talk:
        one, two = await talk.ran(RETRIED), await talk.ran(RETRIED, {"page": 8})
        url = f"/api/executions/{two}/attempts"
        attempts = (await talk.get(url, params={"step": "start"}))["attempts"]
        second = next(
            each
            for each in reversed((await talk.get(f"/api/executions/{one}/attempts"))["attempts"])
            if each["task"] == "second"
        )
        retried = await talk.get(f"/api/executions/{one}/attempts/{second['seq']}/inputs")
        first = next(each for each in attempts if each["task"] == "first")
        across = await talk.get(f"{url}/{first['seq']}/inputs", params={"against": one})
        alone = await talk.get(f"{url}/{first['seq']}/inputs")

    assert [each["attempt"] for each in attempts if each["task"] == "first"] == [1]
    assert (retried["attempt"]["attempt"], retried["before"]["attempt"]) == (2, 1)
    assert [(each["path"], each["values"]) for each in retried["differences"]] == [
        ("args.token", {"before": "none", "after": "new"}),
        ("args.n", {"before": 1, "after": 2}),
    ]
    assert across["before_execution_id"] == one
    assert [(each["path"], each["values"]) for each in across["differences"]] == [
        ("args.page", {"before": 7, "after": 8})
    ]
    assert (alone["before"], alone["differences"]) == (None, None)


async def test_pages_of_attempts_are_consecutive_and_show_each_outcome() -> None:
    tool = Recording(first={"n": 3}, second=[broken(), {"n": 5}])
    async with talking(tools={"python": tool}) as talk:
        execution_id = await talk.ran(RETRIED)
        url = f"/api/executions/{execution_id}/attempts"
        whole = (await talk.get(url))["attempts"]
        pages: list[Any] = []
        after: int | None = 0
        while after is not None:
            page = await talk.get(url, params={"limit": 2, "after": after})
            pages.extend(page["attempts"])
            after = page["next"]
        in_loop = (await talk.get(url, params={"step": "each", "path": "1"}))["attempts"]

    assert pages == whole
    assert [(one["task"], one["status"]) for one in whole[:4]] == [
        ("first", "success"),
        ("second", "error"),
        ("second", "success"),
        ("third", "success"),
    ]
    assert [one["path"] for one in in_loop] == [[1]]


async def test_an_invalid_attempt_is_refused() -> None:
    async with talking(tools={"python": Recording()}) as talk:
        execution_id = await talk.ran(RETRIED)

        await talk.get(f"/api/executions/{execution_id}/attempts/1/inputs", status=404)
        await talk.get(f"/api/executions/{execution_id}/attempts/99999/inputs", status=404)


KEYED = """
keychain: [{name: shop, kind: env, var: ATTEMPT_INPUTS_TOKEN}]
workflow:
  - step: start
    tool:
      - {name: ask, kind: python, code: x, args: {key: "Bearer {{ keychain.shop }}", when: "{{ now() }}"}}
      - name: call
        kind: http
        url: "http://shop.invalid/{{ ask.n }}"
        auth: {type: basic, username: ann, password: "{{ 'pass' }}-of-the-shop"}
"""


@pytest.mark.req("KEY-06")
async def test_secrets_are_masked_in_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTEMPT_INPUTS_TOKEN", "sesame-open-now")
    tool, http = Recording(ask={"n": 1}), Recording(call={"n": 2})
    async with talking(tools={"python": tool, "http": http}) as talk:
        execution_id = await talk.ran(KEYED)
        url = f"/api/executions/{execution_id}/attempts"
        ask, call = [await talk.get(f"{url}/{one['seq']}/inputs") for one in (await talk.get(url))["attempts"]]

    assert "sesame-open-now" in str(tool.given)
    assert "pass-of-the-shop" in str(http.given)
    assert ask["inputs"]["args"]["key"] == "Bearer ***"
    assert (call["inputs"]["url"], call["inputs"]["auth"]["password"]) == ("http://shop.invalid/1", "***")
    assert ask["notes"] == [
        "Secrets are shown as ***, so a changed secret does not appear as a difference.",
        "now() is rendered as the time at which the attempt began.",
    ]


LARGE = """
workflow:
  - step: start
    tool:
      - {name: many, kind: python, code: x}
      - {name: use, kind: python, code: x, args: {rows: "{{ many }}", first: "{{ many[0] }}"}}
"""


async def test_a_large_value_is_shown_by_size_and_a_missing_one_as_missing() -> None:
    rows = [{"n": n, "text": "x" * 40} for n in range(4_000)]
    async with talking(tools={"python": Recording(many=[rows])}) as talk:
        execution_id = await talk.ran(LARGE)
        url = f"/api/executions/{execution_id}/attempts"
        use = (await talk.get(url))["attempts"][-1]
        kept = await talk.get(f"{url}/{use['seq']}/inputs")
        store = talk.services.results
        assert isinstance(store, MemoryResults)
        store._bodies.clear()
        lost = await talk.get(f"{url}/{use['seq']}/inputs")

    assert kept["inputs"]["args"]["first"] == rows[0]
    assert "4,000 entries" in kept["inputs"]["args"]["rows"]
    assert (lost["inputs"], "cannot be read" in lost["unknown"] or "gone" in lost["unknown"]) == (None, True)
