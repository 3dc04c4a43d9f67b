"""Options under a step's spec: join, concurrency, rate, end, pool, lease, timeout."""

from __future__ import annotations

import pytest

from tests.language.reading.documents import only, read_step


@pytest.mark.req("ROUTE-11")
@pytest.mark.parametrize(
    "join", ["all", "any", "active", "{count: 2}", "{mode: any, rest: cancel}", "{count: 2, rest: block}"]
)
def test_every_form_of_join_is_accepted(join: str) -> None:
    assert read_step(f"spec: {{join: {join}}}")[1] == []


@pytest.mark.req("ROUTE-11")
@pytest.mark.parametrize(
    "join",
    [
        "every",
        "3",
        "[a]",
        "{}",
        "{mode: any, count: 2}",
        "{count: 0}",
        '{count: "{{ 2 }}"}',
        "{mode: none}",
        "{mode: all, rest: keep}",
        "{mode: all, mod: 1}",
    ],
)
def test_an_invalid_join_is_refused(join: str) -> None:
    found = only(read_step(f"spec: {{join: {join}}}")[1])

    assert found.code == "E_SPEC_OPTION"
    assert found.hint


@pytest.mark.parametrize(
    "option",
    [
        'concurrency: {key: "{{ args.k }}", limit: 1, on_limit: drop}',
        'concurrency: {limit: "{{ workload.n }}"}',
        'rate: {key: "{{ args.k }}", limit: 10, per: 1m}',
        "end: execution",
        'pool: "{{ workload.pool }}"',
        "lease: {mode: single_owner, ttl: 30, heartbeat: 5s}",
        "timeout: PT5M",
        "timeout: {connect: 5, read: 15}",
        "anything: {for: the tasks}",
    ],
)
@pytest.mark.req("WRK-03", "SPEC-01", "SPEC-05")
def test_every_option_of_a_step_is_accepted(option: str) -> None:
    assert read_step(f"spec: {{{option}}}")[1] == []


@pytest.mark.req("WRK-03", "SPEC-05")
@pytest.mark.parametrize(
    ("option", "code", "path"),
    [
        ("concurrency: 3", "E_SPEC_OPTION", "concurrency"),
        ("concurrency: {}", "E_SPEC_OPTION", "concurrency"),
        ("concurrency: {limit: 0}", "E_SPEC_OPTION", "concurrency.limit"),
        ("concurrency: {limit: 1, on_limit: wait}", "E_SPEC_OPTION", "concurrency.on_limit"),
        ("concurrency: {limit: 1, kye: x}", "E_SPEC_OPTION", "concurrency.kye"),
        ("rate: {limit: 10}", "E_SPEC_OPTION", "rate"),
        ("rate: {limit: 10, per: often}", "E_DURATION", "rate.per"),
        ("end: step", "E_SPEC_OPTION", "end"),
        ("pool: [a]", "E_SPEC_OPTION", "pool"),
        ("lease: {mode: shared}", "E_SPEC_OPTION", "lease.mode"),
        ("lease: {ttl: long}", "E_DURATION", "lease.ttl"),
        ("timeout: soon", "E_DURATION", "timeout"),
        ("timeout: {read: -1}", "E_DURATION", "timeout.read"),
    ],
)
def test_an_invalid_step_option_is_refused(option: str, code: str, path: str) -> None:
    found = only(read_step(f"spec: {{{option}}}")[1])

    assert (found.code, found.path) == (code, f"workflow[0].spec.{path}")
