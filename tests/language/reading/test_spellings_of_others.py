"""Steps in words of other systems lead to the same net as the canonical ones, or are refused; none is ignored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.base.diagnostics import Source
from noetl.language.checking import Checked, check
from noetl.tools.kinds import KINDS

HEAD = "apiVersion: noetl.io/{api}\nkind: Playbook\nmetadata: {{name: t, path: t/t, dialect: v10}}\nworkflow:\n"
CALL = "kind: http, url: 'http://127.0.0.1/'"
NOOP = "    tool: {kind: noop}\n"
B = "\n  - {step: b, tool: {kind: noop}}\n  - {step: end, tool: {kind: noop}}"
BEST_EFFORT = "    spec: {policy: {failure: {mode: best_effort}}}"
ERROR = "{{ outcome.status == 'error' }}"


def checked(step: str, api: str = "v2") -> Checked:
    head = HEAD.format(api=api).replace(", dialect: v10", "" if api == "v10" else ", dialect: v10")
    return check(Source("a.yaml", f"{head}  - step: start\n{step}\n"), kinds=KINDS)


def retrying(then: str) -> str:
    rule = f'{{when: "{ERROR}", then: {{do: retry, {then}}}}}'
    return f"    tool: {{{CALL}, spec: {{policy: {{rules: [{rule}]}}}}}}"


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (f"    tool: {{{CALL}}}\n    retries: 2", retrying("attempts: 3")),
        (
            f"    tool: {{{CALL}, retries: 2, retryDelay: 5}}",
            retrying("attempts: 3, backoff: none, delay: 5"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{attempts: 3, backoff: {{type: linear, delay: 2s, max: 1m}}}}}}",
            retrying("attempts: 3, backoff: linear, delay: 2s, max_delay: 1m"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{maxAttempts: '3', delay: {{seconds: 2}}, backoff: constant}}}}",
            retrying("attempts: 3, backoff: none, delay: 2s"),
        ),
        (
            f"    tool: {{{CALL}, retry: {{maxAttempts: 3, delay_ms: 500, backoff: constant}}}}",
            retrying("attempts: 3, backoff: none, delay: 500ms"),
        ),
        (f"    tool: {{{CALL}, timeoutSeconds: 30}}", f"    tool: {{{CALL}, spec: {{timeout: 30s}}}}"),
        (f"    tool: {{{CALL}, timeout: {{minutes: 5}}}}", f"    tool: {{{CALL}, spec: {{timeout: 5m}}}}"),
        (f"    timeout-minutes: 5\n    tool: {{{CALL}}}", f"    timeout: 5m\n    tool: {{{CALL}}}"),
        (
            f"    continue-on-error: true\n    tool: {{{CALL}}}",
            f'    tool: {{{CALL}, spec: {{policy: {{rules: [{{when: "{ERROR}", then: {{do: continue}}}}]}}}}}}',
        ),
        (
            f"    allow_failure: 'yes'\n    tool: {{{CALL}}}",
            f"    continue_on_error: true\n    tool: {{{CALL}}}",
        ),
        (
            f"{NOOP}    next: {{to: b, params: {{n: 1}}}}{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, args: {{n: 1}}}}]}}{B}",
        ),
        (
            f"{NOOP}    next: {{if: '{{{{ workload.go }}}}', then: b, else: end}}{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end}}]}}{B}",
        ),
        (
            f"{NOOP}    next: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end, default: true}}]{B}",
            f"{NOOP}    next: {{arcs: [{{step: b, when: '{{{{ workload.go }}}}'}}, {{step: end}}]}}{B}",
        ),
        (
            f"{NOOP}    next: {{parallel: [b, end]}}{B}",
            f"{NOOP}    next: {{spec: {{mode: inclusive}}, arcs: [b, end]}}{B}",
        ),
        (f"{NOOP}    set_vars: {{n: 1}}", f"{NOOP}    set_ctx: {{n: 1}}"),
        ("    timer: PT90S", "    timer: {duration: PT90S}"),
        ("    timer: {duration: {hours: 1, minutes: 30}}", "    timer: {duration: 1h30m}"),
        (
            "    loop: {items: [1, 2], parallel: 2}\n    tool: {kind: noop}",
            "    loop: {in: [1, 2], iterator: item, spec: {mode: parallel, max_in_flight: 2}}\n    tool: {kind: noop}",
        ),
        (
            "    loop: {in: [1, 2], failFast: false}\n    tool: {kind: noop}",
            f"    loop: {{in: [1, 2], iterator: item}}\n{BEST_EFFORT}\n    tool: {{kind: noop}}",
        ),
    ],
)
def test_words_of_other_systems_mean_what_the_canonical_ones_mean(written: str, canonical: str) -> None:
    found, wanted = checked(written), checked(canonical)

    assert found.refusals == ()
    assert wanted.refusals == ()
    assert found.net is not None
    assert wanted.net is not None
    assert replace(found.net, dialect="v10") == wanted.net


def test_a_count_of_retries_stays_with_a_kind_that_has_one_of_its_own() -> None:
    found = checked("    tool: {kind: dask, auth: cluster, retries: 2, code: 'def main(): return 1'}")

    assert found.net is not None
    assert found.net.transitions[0].tasks[0].inputs.data["retries"] == 2


@pytest.mark.parametrize("task", ["{kind: log, count: '007', limit: '3'}", "{kind: noop, args: {attempts: '3'}}"])
def test_texts_that_look_like_numbers_stay_texts_where_they_are_data(task: str) -> None:
    found = checked(f"    tool: {task}")

    assert [one.code for one in found.diagnostics if one.code == "I_ALIAS"] == []


@pytest.mark.req("SPEC-05")
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("retry: {times_over: 3}", "E_SPEC_OPTION"),
        ("retry: {attempts: 3, jitter: true}", "E_SPEC_OPTION"),
        ("timeout: {connect: 5, write: 3}", "E_DURATION"),
    ],
)
@pytest.mark.parametrize("api", ["v2", "v10"])
def test_parts_of_an_option_that_nothing_reads_are_refused(spec: str, code: str, api: str) -> None:
    found = checked(f"    tool: {{{CALL}, spec: {{{spec}}}}}", api)

    assert [one.code for one in found.refusals] == [code]
