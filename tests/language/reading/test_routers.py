"""v10 routers, arcs and loops."""

from __future__ import annotations

import pytest

from noetl.language.reading.nodes import data
from tests.language.reading.documents import codes, only, places, read_step


@pytest.mark.req("ROUTE-01")
def test_a_router_reads_mode_and_arcs() -> None:
    step, found = read_step("""
        next:
          spec: {mode: inclusive, unguarded: always, policy: {priority: 2, dedupe: {key: k}, partitioning: {key: p}}}
          arcs:
            - {step: a, when: "{{ event.name == 'step.done' }}", args: {n: 1}, spec: {priority: 5}}
            - {step: b}
    """)

    router = step.router
    assert found == []
    assert router
    assert (router.mode, [arc.target.value for arc in router.arcs]) == ("inclusive", ["a", "b"])
    assert (data(router.arcs[0].args), data(router.arcs[0].spec), router.arcs[1].when) == (
        {"n": 1},
        {"priority": 5},
        None,
    )


@pytest.mark.req("ROUTE-01", "MIG-04")
@pytest.mark.parametrize(
    ("following", "path"),
    [
        ("a", "next"),
        ("[{step: a}]", "next"),
        ("[a]", "next"),
        ("{spec: {}}", "next"),
        ("{step: a}", "next"),
        ("{arcs: a}", "next.arcs"),
        ("{arcs: [a]}", "next.arcs[0]"),
        ("{arcs: [{when: true}]}", "next.arcs[0]"),
        ("{arcs: [{step: 7}]}", "next.arcs[0].step"),
        ("{arcs: [{step: a, whn: true}]}", "next.arcs[0].whn"),
        ("{arcs: [{step: a, then: []}]}", "next.arcs[0].then"),
        ("{arcs: [{step: a, args: [1]}]}", "next.arcs[0].args"),
        ("{arcs: [], mode: inclusive}", "next.mode"),
        ("{arcs: [], spec: {mode: all}}", "next.spec.mode"),
    ],
)
def test_next_is_a_router_object(following: str, path: str) -> None:
    found = only(read_step(f"next: {following}")[1])

    assert (found.code, found.path) == ("E_NEXT_SHAPE", f"workflow[0].{path}")
    assert found.hint


@pytest.mark.req("ROUTE-01", "VAL-19")
@pytest.mark.parametrize("following", ["a", "[a]", "[{step: a, when: true}]"])
def test_targets_of_a_malformed_next_count_as_referenced(following: str) -> None:
    """Otherwise one mistake would be reported again as unreachable steps."""
    step, _ = read_step(f"next: {following}")

    assert step.router
    assert [arc.target.value for arc in step.router.arcs] == ["a"]


@pytest.mark.req("ROUTE-13")
def test_a_templated_target_is_refused() -> None:
    found = only(read_step('next: {arcs: [{step: "{{ x }}"}]}')[1])

    assert (found.code, found.path) == ("E_TARGET_TEMPLATE", "workflow[0].next.arcs[0].step")
    assert "one guarded arc per target" in found.hint


@pytest.mark.req("VAL-14", "VAL-16")
@pytest.mark.parametrize(
    ("arc", "code"),
    [
        ("{step: a, expr: x}", "E_EXPR"),
        ("{step: a, when: ctx.n > 1}", "E_GUARD_LITERAL"),
        ("{step: a, when: }", "E_GUARD_LITERAL"),
    ],
)
def test_an_arc_accepts_one_condition_key(arc: str, code: str) -> None:
    assert codes(read_step(f"next: {{arcs: [{arc}]}}")[1]) == [code]


@pytest.mark.req("ADV-03", "ADV-04", "ADV-05", "SAGA-02")
@pytest.mark.parametrize(
    "spec",
    [
        "delay: 5s",
        'delay: "{{ ctx.wait }}"',
        "priority: -3",
        'dedupe: {key: "{{ args.id }}", window: 1h}',
        'partition: "{{ args.customer }}"',
        "tokens: 3",
        "cancel: [a, b]",
        "cancel: execution",
        "trigger_compensation: true",
    ],
)
def test_every_option_of_an_arc_is_accepted(spec: str) -> None:
    assert read_step(f"next: {{arcs: [{{step: a, spec: {{{spec}}}}}]}}")[1] == []


@pytest.mark.req("ADV-03", "ADV-04", "ADV-05", "SAGA-02", "VAL-11")
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("delay: later", "E_DURATION"),
        ("priority: high", "E_SPEC_OPTION"),
        ("dedupe: {}", "E_SPEC_OPTION"),
        ("dedupe: k", "E_SPEC_OPTION"),
        ("dedupe: {key: k, window: later}", "E_DURATION"),
        ("partition: [a]", "E_SPEC_OPTION"),
        ("tokens: 0", "E_SPEC_OPTION"),
        ('tokens: "{{ 2 }}"', "E_SPEC_OPTION"),
        ("tokens: true", "E_SPEC_OPTION"),
        ("cancel: a", "E_SPEC_OPTION"),
        ('cancel: ["{{ a }}"]', "E_SPEC_OPTION"),
        ("trigger_compensation: yes", "E_SPEC_OPTION"),
        ("guard: true", "E_SPEC_OPTION"),
        ("mode: inclusive", "E_SPEC_OPTION"),
        ("priorty: 1", "E_SPEC_OPTION"),
        ("policy: {}", "E_POLICY_SCOPE"),
        ("retry: 3", "E_POLICY_SCOPE"),
    ],
)
def test_an_invalid_arc_option_is_refused(spec: str, code: str) -> None:
    assert codes(read_step(f"next: {{arcs: [{{step: a, spec: {{{spec}}}}}]}}")[1]) == [code]


@pytest.mark.req("VAL-11", "VAL-12", "ROUTE-05")
@pytest.mark.parametrize(
    ("spec", "code", "path"),
    [
        ("policy: {admit: {}}", "E_POLICY_SCOPE", "policy.admit"),
        ("policy: {rules: []}", "E_POLICY_SCOPE", "policy.rules"),
        ("policy: {priority: high}", "E_POLICY_SHAPE", "policy.priority"),
        ("policy: {partitioning: [a]}", "E_POLICY_SHAPE", "policy.partitioning"),
        ("rules: []", "E_POLICY_SCOPE", "rules"),
        ("unguarded: never", "E_SPEC_OPTION", "unguarded"),
        ("modes: 1", "E_SPEC_OPTION", "modes"),
    ],
)
def test_router_spec_accepts_its_own_keys_and_no_control_flow(spec: str, code: str, path: str) -> None:
    assert places(read_step(f"next: {{spec: {{{spec}}}, arcs: []}}")[1]) == [(code, f"workflow[0].next.spec.{path}")]


@pytest.mark.req("LOOP-01", "SPEC-06", "LOOP-05")
def test_a_loop_reads_items_iterator_mode_and_bound() -> None:
    step, found = read_step("loop: {in: [1, 2], iterator: x, spec: {mode: parallel, policy: {max_in_flight: 3}}}")

    loop = step.loop
    assert found == []
    assert loop
    assert (data(loop.items), loop.iterator.value, loop.mode, data(loop.max_in_flight)) == ([1, 2], "x", "parallel", 3)


@pytest.mark.req("LOOP-04", "LOOP-12")
def test_a_loop_is_sequential_by_default_and_can_iterate_over_a_mapping() -> None:
    step, found = read_step("loop: {in: {a: 1}, iterator: x}")

    assert found == []
    assert step.loop
    assert (step.loop.mode, step.loop.max_in_flight) == ("sequential", None)


@pytest.mark.req("LOOP-07")
def test_nested_loops_have_a_spec_for_each_level() -> None:
    step, found = read_step("""
        loop:
          in: "{{ workload.cities }}"
          iterator: city
          spec: {mode: parallel}
          loop: {in: "{{ iter.city.hotels }}", iterator: hotel}
    """)

    assert found == []
    assert step.loop
    assert step.loop.inner
    assert (step.loop.mode, step.loop.inner.iterator.value, step.loop.inner.mode) == ("parallel", "hotel", "sequential")


@pytest.mark.req("VAL-03")
@pytest.mark.parametrize("loop", ["{in: [1]}", "{iterator: x}", ""])
def test_a_loop_needs_both_in_and_iterator(loop: str) -> None:
    found = only(read_step(f"loop: {loop}")[1])

    assert found.code == "E_LOOP_SHAPE"
    assert "needs both in and iterator" in found.message


@pytest.mark.req("VAL-03", "LOOP-07", "LOOP-12", "VAL-12", "LOOP-14", "LOOP-15")
@pytest.mark.parametrize(
    ("loop", "code"),
    [
        ("[1]", "E_LOOP_SHAPE"),
        ("{in: items, iterator: x}", "E_LOOP_SHAPE"),
        ("{in: 3, iterator: x}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: 3}", "E_LOOP_SHAPE"),
        ('{in: [1], iterator: "{{ x }}"}', "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, max_in_flight: 3}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, spce: {}}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, loop: {in: [2]}}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, spec: {max_in_flight: 0}}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, spec: {on_error: continue}}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, spec: {extend: 1}}", "E_LOOP_SHAPE"),
        ("{in: [1], iterator: x, spec: {complete_when: enough}}", "E_GUARD_LITERAL"),
        ("{in: [1], iterator: x, spec: {mode: async}}", "E_LOOP_MODE"),
        ("{in: [1], iterator: x, spec: {policy: {mode: async}}}", "E_LOOP_MODE"),
        ("{in: [1], iterator: x, spec: {policy: {admit: {}}}}", "E_POLICY_SCOPE"),
        ("{in: [1], iterator: x, spec: {policy: {rules: []}}}", "E_POLICY_SCOPE"),
        ("{in: [1], iterator: x, spec: {policy: {exec: remote}}}", "E_POLICY_SHAPE"),
        ("{in: [1], iterator: x, spec: {policy: {reducers: {n: avg}}}}", "E_POLICY_SHAPE"),
        ("{in: [1], iterator: x, spec: {policy: {ctx_writes: first}}}", "E_POLICY_SHAPE"),
        ("{in: [1], iterator: x, spec: {policy: {backpressure: {max_queue: 0}}}}", "E_POLICY_SHAPE"),
        ("{in: [1], iterator: x, spec: {policy: {ordering: random}}}", "E_POLICY_SHAPE"),
    ],
)
def test_an_invalid_loop_is_refused(loop: str, code: str) -> None:
    assert codes(read_step(f"loop: {loop}")[1]) == [code]


@pytest.mark.req("VAL-12", "LOOP-14", "LOOP-15", "SCOPE-05", "LOOP-11")
def test_every_loop_option_is_accepted() -> None:
    _, found = read_step("""
        loop:
          in: "{{ workload.items }}"
          iterator: x
          spec:
            mode: parallel
            max_in_flight: "{{ workload.n }}"
            complete_when: "{{ ctx.enough }}"
            extend: true
            policy:
              exec: distributed
              mode: parallel
              ordering: shuffle
              reducers: {total: sum, fail: append}
              ctx_writes: last
              backpressure: {max_queue: 5}
              partitioning: {key: "{{ iter.x }}"}
    """)

    assert found == []


@pytest.mark.req("SPEC-06")
@pytest.mark.parametrize(
    "spec", ["{mode: parallel, policy: {mode: sequential}}", "{max_in_flight: 2, policy: {max_in_flight: 3}}"]
)
def test_a_loop_option_written_twice_must_agree(spec: str) -> None:
    assert codes(read_step(f"loop: {{in: [1], iterator: x, spec: {spec}}}")[1]) == ["E_LOOP_MODE"]
