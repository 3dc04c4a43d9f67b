"""http tasks in whole runs: policies read the outcome, later tasks the body (O-12, POL-08, OUT-04)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.playbook_runs import Ran, run_here
from tests.servers.http import HttpServer, Script, reply

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: calls, path: tests/calls }}
workload: {{ base: "" }}
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: "{{{{ workload.base }}}}/a"
        {extra}
      - name: keep
        kind: noop
        args: {args}
"""


def run(routes: dict[str, Script], *, extra: str = "", args: str = "{}") -> tuple[Ran, HttpServer]:
    with HttpServer(routes) as server:
        return run_here(PLAYBOOK.format(extra=extra, args=args), {"base": server.url}), server


def result_of(ran: Ran) -> Any:
    assert ran.result.ok, ran.result.error
    return ran.result.result


@pytest.mark.req("TOOL-02", "TPL-07", "O-22")
def test_later_tasks_read_the_body_by_the_name_of_the_task() -> None:
    ran, _ = run(
        {"/a": reply(json={"n": 1, "data": [2]})},
        args='{n: "{{ fetch.data.n }}", inner: "{{ fetch.data.data }}", status: "{{ fetch.result.status }}",'
        " type: \"{{ fetch.result.headers['content-type'] }}\"}",
    )

    assert result_of(ran) == {"n": 1, "inner": [2], "status": 200, "type": "application/json"}


RETRY = """spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}"
                then: { do: retry, attempts: 3, delay: "{{ outcome.http.headers['Retry-After'] | default(2) }}" }
              - else: { then: { do: continue } }"""


@pytest.mark.req("POL-08", "TOOL-03")
def test_a_policy_waits_for_retry_after_or_else_two_seconds() -> None:
    ran, _ = run(
        {"/a": [reply(503, headers={"Retry-After": "7"}), reply(429), reply(json=5)]},
        extra=RETRY,
        args='{got: "{{ fetch.data }}"}',
    )

    assert result_of(ran) == {"got": 5}
    assert ran.slept == [7, 2]


@pytest.mark.req("TOOL-03")
@pytest.mark.parametrize("place", ["outcome.http.headers", "outcome.result.headers"])
def test_a_policy_reads_headers_in_any_case_and_notation(place: str) -> None:
    asked = f"[{place}['X-Total'], {place}.get('X-Total'), {place}.get('X-None', 2), 'X-Total' in {place}]"
    extra = (
        f"""spec: {{ policy: {{ rules: [{{ else: {{ then: {{ set_ctx: {{ seen: "{{{{ {asked} }}}}" }} }} }} }}] }} }}"""
    )
    ran, _ = run({"/a": reply(json=1, headers={"X-Total": "7"})}, extra=extra, args='{seen: "{{ ctx.seen }}"}')

    assert result_of(ran) == {"seen": ["7", "7", 2, True]}


@pytest.mark.req("TOOL-03", "TPL-07")
def test_later_tasks_read_headers_in_any_case_too() -> None:
    args = "{by_name: \"{{ fetch.result.headers['X-Total'] }}\", before: \"{{ _prev.headers.get('X-TOTAL') }}\"}"
    ran, _ = run({"/a": reply(json=1, headers={"X-Total": "7"})}, args=args)

    assert result_of(ran) == {"by_name": "7", "before": "7"}


@pytest.mark.req("OUT-02", "O-12")
def test_a_policy_can_read_headers_of_a_response_that_never_arrived() -> None:
    extra = """spec:
          policy:
            rules:
              - when: "{{ outcome.http.status is none }}"
                then: { do: retry, attempts: 2, delay: "{{ outcome.http.headers['retry-after'] | default(2) }}" }"""
    ran, _ = run({"/a": [reply(drop=True), reply(json=1)]}, extra=extra, args='{n: "{{ fetch.data }}"}')

    assert result_of(ran) == {"n": 1}
    assert ran.slept == [2]


@pytest.mark.req("OUT-04")
def test_internal_retries_give_one_outcome() -> None:
    """`spec.retry: 3` with two 500s, then 200: the policy sees a success only."""
    extra = """spec:
          retry: 3
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: { do: retry, attempts: 9 }
              - else: { then: { do: continue } }"""
    ran, server = run({"/a": [reply(500), reply(500), reply(json="ok")]}, extra=extra, args='{got: "{{ fetch.data }}"}')

    assert result_of(ran) == {"got": "ok"}
    assert ran.trace()[0] == ("fetch", "continue")
    assert ran.payloads("task.processed")[0].outcome.meta.internal_attempts == 3
    assert len(server.requests) == 3


@pytest.mark.req("TOOL-04", "SPEC-05")
def test_a_read_timeout_is_an_outcome_of_kind_timeout() -> None:
    extra = (
        """spec: { timeout: { connect: 5, read: 0.05 }, policy: { rules: [ { else: { then: { do: continue } } } ] } }"""
    )
    ran, _ = run({"/a": reply(hang=True)}, extra=extra)

    assert ran.payloads("task.processed")[0].outcome.error.kind == "timeout"


def test_every_attempt_of_one_visit_carries_the_same_idempotency_key() -> None:
    """reliability.md §3.4."""
    _, server = run({"/a": [reply(503), reply(503), reply()]}, extra="method: POST\n        " + RETRY)

    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1


@pytest.mark.req("RES-01")
def test_a_large_body_is_passed_by_reference_and_read_back_whole() -> None:
    ran, _ = run({"/a": reply(json={"text": "x" * 2_000_000})}, args='{n: "{{ fetch.data.text | length }}"}')

    assert result_of(ran) == {"n": 2_000_000}
    assert ran.payloads("task.processed")[0].outcome.ref is not None
