"""Routes, loops, joins and waits in the net, and the advice about arcs (VAL-02, VAL-20, ROUTE, LOOP, C-27, C-40)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.net.net import Concurrency, Emit, Lifecycle, Rate, StepResult
from noetl.net.routing import Join, JoinMode, Mode
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile, Outcome
from tests.narrowing import present


def arcs(*written: str, head: str = "tool: { kind: noop }", spec: str = "") -> str:
    listed = ", ".join(f"{{ {each} }}" for each in written)
    return f"- step: start\n  {head}\n  next: {{ {spec}arcs: [{listed}] }}\n- step: a\n- step: b"


@pytest.mark.req("VAL-02")
def test_an_unknown_target_gets_the_nearest_step_and_its_line(compiled: Compile) -> None:
    steps = "- step: start\n  next: { arcs: [{ step: valdate_results }] }\n- step: validate_results"
    found = compiled(steps).only("E_NEXT_REF")

    assert found.path == "workflow[0].next.arcs[0].step"
    assert found.message == 'this arc leads to "valdate_results", which is not a step here'
    assert found.hint == 'did you mean "validate_results" (line 8)?'


@pytest.mark.req("VAL-02")
@pytest.mark.parametrize(
    ("step", "path"),
    [
        (
            "timeout: { duration: 5s, alternative_step: nope, spec: { on_timeout: alternative } }",
            "workflow[0].timeout.alternative_step",
        ),
        ("next: { arcs: [{ step: a, spec: { cancel: [nope] } }] }", "workflow[0].next.arcs[0].spec.cancel[0]"),
    ],
)
def test_every_static_target_is_checked(compiled: Compile, step: str, path: str) -> None:
    found = compiled(f"- step: start\n  tool: {{ kind: noop }}\n  {step}\n- step: a").only("E_NEXT_REF")

    assert found.path == path


@pytest.mark.req("VAL-19", "VAL-01", "VAL-02")
def test_all_mistakes_are_reported_in_document_order(compiled: Compile) -> None:
    result = compiled("- step: start\n  next: { arcs: [{ step: nope }] }\n- step: a\n- step: a")

    assert result.loud == ["E_NEXT_REF", "E_STEP_DUP"]


def test_end_must_exist_in_v10_and_is_implied_in_v2_case(compiled: Compile) -> None:
    assert compiled("- step: start\n  next: { arcs: [{ step: end }] }").loud == ["E_NEXT_REF"]

    older = compiled("- step: start\n  tool: { kind: noop }\n  next: end", api="noetl.io/v2")
    assert older.loud == []
    assert [step.name for step in present(older.net).transitions] == ["start", "end"]
    assert older.debug["steps/end"].construct == "implicit end"


@pytest.mark.req("V2C-25")
def test_a_computed_target_lists_the_steps_it_can_lead_to(compiled: Compile) -> None:
    text = """
    - step: start
      tool: { kind: noop }
      case:
        - when: "{{ true }}"
          then: [{ next: { next: [{ step: "{{ 'a' if result.ok else 'b' if result.x else 'a' }}" }] } }]
    - { step: a, next: end }
    - { step: b, next: end }
    """
    result = compiled(text, api="noetl.io/v2")
    arc = present(result.step("start").case).rules[0].actions[0].transition[0]

    assert result.loud == []
    assert (arc.target, arc.candidates) == ("", ("a", "b"))
    assert arc.computed is not None
    assert compiled(text.replace("'b' if", "'c' if"), api="noetl.io/v2").only("E_NEXT_REF")


@pytest.mark.req("ROUTE-01", "ROUTE-05")
def test_a_router_keeps_its_mode_and_its_unguarded_rule(compiled: Compile) -> None:
    router = compiled(arcs("step: a", "step: b", spec="spec: { mode: inclusive, unguarded: always }, ")).router("start")

    assert (router.mode, router.unguarded_always) == (Mode.INCLUSIVE, True)
    assert [arc.target for arc in router.arcs] == ["a", "b"]

    everywhere = compiled(arcs("step: a"), root="executor: { spec: { unguarded: always } }")
    assert everywhere.router("start").unguarded_always


@pytest.mark.req("ADV-03", "ADV-04", "ADV-05")
def test_a_router_policy_gives_defaults_to_its_arcs(compiled: Compile) -> None:
    spec = 'spec: { policy: { priority: 3, partitioning: { key: "{{ ctx.k }}" } } }, '
    first, second = (
        compiled(arcs("step: a, when: true, spec: { priority: 9 }", "step: b", spec=spec)).router("start").arcs
    )

    assert (first.priority, second.priority) == (Authored(9), Authored(3))
    assert first.partition == Authored("{{ ctx.k }}")


def test_arc_options_are_kept(compiled: Compile) -> None:
    options = "delay: 5s, tokens: 3, cancel: execution, trigger_compensation: true, dedupe: { key: x }"
    arc = compiled(arcs(f"step: a, spec: {{ {options} }}")).router("start").arcs[0]

    assert (arc.delay, arc.tokens, arc.cancel, arc.trigger_compensation) == (Authored("5s"), 3, ("*",), True)
    assert arc.dedupe == Authored({"key": "x"})


@pytest.mark.req("ROUTE-11")
@pytest.mark.parametrize(
    ("written", "join"),
    [
        ("all", Join(mode=JoinMode.ALL)),
        ("active", Join(mode=JoinMode.ACTIVE)),
        ("{ count: 2 }", Join(mode=JoinMode.COUNT, count=2)),
        ("{ mode: any, rest: cancel }", Join(mode=JoinMode.ANY, rest="cancel")),
        ("{ count: 2, rest: block }", Join(mode=JoinMode.COUNT, count=2, rest="block")),
    ],
)
def test_joins_are_compiled_in_all_their_forms(compiled: Compile, written: str, join: Any) -> None:
    result = compiled(f"- step: start\n  spec: {{ join: {written} }}")

    assert result.loud == []
    assert result.step("start").join == join


@pytest.mark.req("LOOP-01", "LOOP-07", "LOOP-11", "LOOP-14", "LOOP-15")
def test_loops_nest_with_a_spec_for_each_level(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          loop:
            in: "{{ workload.cities }}"
            iterator: city
            spec: { mode: parallel, max_in_flight: 2, policy: { exec: local, ordering: shuffle } }
            loop:
              in: "{{ iter.city.hotels }}"
              iterator: hotel
              spec:
                complete_when: "{{ ctx.enough }}"
                extend: true
                policy:
                  reducers: { rooms: extend }
                  ctx_writes: last
                  partitioning: { key: "{{ iter.hotel.zone }}" }
                  backpressure: { max_queue: 7 }
          tool: { kind: noop }
        """
    )
    outer = result.loop("start")
    inner = present(outer.inner)

    assert result.loud == []
    assert (outer.iterator, outer.parallel, outer.max_in_flight, outer.distributed) == (
        "city",
        True,
        Authored(2),
        False,
    )
    assert outer.ordering == "shuffle"
    assert (inner.iterator, inner.parallel, inner.reducers, inner.ctx_writes) == (
        "hotel",
        False,
        {"rooms": "extend"},
        "last",
    )
    assert (inner.partition, inner.max_queue) == (Authored("{{ iter.hotel.zone }}"), Authored(7))
    assert (inner.complete_when, inner.extend) == (Authored("{{ ctx.enough }}"), True)


@pytest.mark.req("LOOP-12")
def test_a_literal_mapping_is_iterated_in_document_order(compiled: Compile) -> None:
    result = compiled("- step: start\n  loop: { in: { z: 1, a: 2 }, iterator: x }\n  tool: { kind: noop }")

    assert result.loop("start").items == Authored([{"key": "z", "value": 1}, {"key": "a", "value": 2}])


@pytest.mark.req("DOC-11")
def test_a_step_without_tools_is_a_transition_without_tasks(compiled: Compile) -> None:
    result = compiled("- step: start\n  next: { arcs: [{ step: end }] }\n- step: end")

    assert result.loud == []
    assert (result.step("start").tasks, result.step("end").router) == ((), None)


def test_everything_a_step_can_carry_is_in_the_net(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          desc: all of it
          args: { n: 1 }
          set_ctx: { seen: "{{ start.data }}" }
          result: { store: { kind: s3 }, output_select: [a.b] }
          spec:
            pool: big
            lease: { ttl: 5 }
            concurrency: { key: "{{ args.n }}", limit: 2, on_limit: drop }
            rate: { limit: 3, per: 1m }
            end: execution
            policy:
              lifecycle: { timeout_s: 600, deadline_s: 900 }
              failure: { mode: best_effort }
              emit: { events: [audit.required, { name: seen, when: true, data: { x: 1 } }] }
              tracing: { enabled: true }
              quotas: { max_runs: 5 }
          tool: { kind: noop }
        """
    )
    step = result.step("start")

    assert result.loud == []
    assert (step.desc, step.args, step.set_ctx) == (
        "all of it",
        Authored({"n": 1}),
        Authored({"seen": "{{ start.data }}"}),
    )
    assert step.result == StepResult(store="s3", output_select=("a.b",))
    assert (step.pool, step.lease) == (Authored("big"), {"ttl": 5})
    assert step.concurrency == Concurrency(limit=Authored(2), key=Authored("{{ args.n }}"), on_limit="drop")
    assert step.rate == Rate(limit=Authored(3), per=Authored("1m"))
    assert step.lifecycle == Lifecycle(timeout_s=Authored(600), deadline_s=Authored(900))
    assert step.emit == (
        Emit(name="audit.required"),
        Emit(name="seen", when=Authored(True), data=Authored({"x": 1})),
    )
    assert (step.best_effort, step.ends_execution) == (True, True)
    assert (step.tracing, step.quotas) == ({"enabled": True}, {"max_runs": 5})


# advice --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("written", "shadowed"),
    [
        (("step: a", "step: b"), 1),
        (("step: a", 'step: b, when: "{{ ctx.n > 1 }}"'), 1),
        (("step: a", "step: b, when: \"{{ event.name == 'step.done' }}\""), 1),
        (("step: a", "step: b, when: \"{{ event.name == 'step.failed' }}\""), 0),
        (("step: a", "step: b, when: \"{{ event.name == 'step.failed' and ctx.n }}\""), 0),
        (("step: a", 'step: b, when: "{{ event.error.kind }}"'), 0),
        (("step: a, when: true", "step: b, when: \"{{ event.name == 'step.failed' }}\""), 1),
        (('step: a, when: "{{ ctx.n }}"', "step: b"), 0),
    ],
)
def test_an_arc_after_an_unguarded_one_is_shadowed_unless_it_is_for_failures(
    compiled: Compile, written: tuple[str, ...], shadowed: int
) -> None:
    assert compiled(arcs(*written)).codes.count("W_ARC_SHADOWED") == shadowed


def test_no_arc_is_shadowed_in_an_inclusive_router(compiled: Compile) -> None:
    assert compiled(arcs("step: a", "step: b", spec="spec: { mode: inclusive }, ")).loud == []


def test_unguarded_always_shadows_failures_too(compiled: Compile) -> None:
    text = arcs("step: a", "step: b, when: \"{{ event.name == 'step.failed' }}\"", spec="spec: { unguarded: always }, ")

    assert compiled(text).loud == ["W_ARC_SHADOWED"]


LOOP = "loop: { in: [1], iterator: x }\n  tool: { kind: noop }"


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("head", "event", "code"),
    [
        ("tool: { kind: noop }", "step.done", None),
        ("tool: { kind: noop }", "step.failed", None),
        ("tool: { kind: noop }", "loop.done", "W_EVENT_NEVER"),
        (LOOP, "loop.done", None),
        (LOOP, "step.done", "W_EVENT_NEVER"),
        ("timer: { duration: 5s }", "timer.fired", None),
        ("timer: { duration: 5s }", "timer.cancelled", "W_EVENT_NEVER"),
        ("timer: { duration: 5s, spec: { cancellable: true } }", "timer.cancelled", None),
        ("timer: { duration: 5s }", "step.done", "W_EVENT_NEVER"),
        ("message: { name: m }", "message.received", None),
        ("message: { name: m }", "message.timeout", "W_EVENT_NEVER"),
        ("message: { name: m, timeout: 5s }", "message.timeout", None),
        ("signal: { name: s }", "signal.received", None),
        ("human_task: { title: x, assignee: { role: r } }", "task.completed", None),
        ("tool: { kind: noop }", "step.interrupted", "W_EVENT_NEVER"),
        (
            "on_event: { spec: { interrupting: true }, handlers: [{ event: e, then: [{ kind: noop }] }] }",
            "step.interrupted",
            None,
        ),
        ("tool: { kind: noop }", "call.done", "I_ALIAS"),
        (LOOP, "call.done", "I_ALIAS"),
        ("tool: { kind: noop }", "call.error", "I_ALIAS"),
        ("tool: { kind: noop }", "step.exit", "I_ALIAS"),
        ("tool: { kind: noop }", "step.enter", "W_EVENT_NEVER"),
        ("timer: { duration: 5s }", "call.done", "W_EVENT_NEVER"),
    ],
)
def test_a_guard_can_name_only_events_of_its_step(compiled: Compile, head: Any, event: str, code: str | None) -> None:
    result = compiled(arcs(f"step: a, when: \"{{{{ event.name == '{event}' }}}}\"", head=head))

    assert result.codes == ([code] if code else [])


def test_the_named_event_itself_is_underlined(compiled: Compile) -> None:
    found = compiled(arcs("step: a, when: \"{{ event.name == 'loop.done' }}\"")).only("W_EVENT_NEVER")

    assert found.span.end_column - found.span.column == len("loop.done")


def test_a_case_rule_for_a_timer_that_the_step_lacks_is_reported(compiled: Compile) -> None:
    def text(more: str) -> str:
        return f"""
        - step: start
          {more}
          tool: {{ kind: noop }}
          case:
            - when: "{{{{ event.name == 'timer.fired' }}}}"
              then: [{{ next: {{ next: [{{ step: end }}] }} }}]
        """

    assert compiled(text("desc: x"), api="noetl.io/v2").loud == ["W_EVENT_NEVER"]
    assert compiled(text("timer: { duration: 5s }"), api="noetl.io/v2").loud == []
    assert compiled(text("spec: { eval_mode: on_event }"), api="noetl.io/v2").loud == []


@pytest.mark.req("V2C-23", "VAL-20")
def test_a_retry_of_a_case_rule_on_the_end_of_its_loop_is_reported(compiled: Compile) -> None:
    def found(then: str) -> Outcome:
        text = f"""
        - step: start
          loop: {{ in: [1], iterator: x, mode: sequential }}
          tool: {{ kind: noop }}
          case: [{{ when: "{{{{ event.name == 'loop.done' }}}}", then: {then} }}]
        """
        return compiled(text, api="noetl.io/v2")

    assert found("{ next: end }").loud == []
    assert found("{ set: { n: '{{ loop.total }}' }, next: end }").loud == []
    assert found("[{ report: { tool: { kind: noop } } }]").loud == []
    never = found("{ retry: { max_attempts: 2 } }").only("W_EVENT_NEVER")
    assert "its retry never happens" in never.message


@pytest.mark.req("V2C-23", "VAL-20")
@pytest.mark.parametrize("name", ["loop.done", "loop.iteration.done"])
def test_a_case_rule_for_a_loop_that_the_step_lacks_is_reported(compiled: Compile, name: str) -> None:
    text = f"""
    - step: start
      tool: {{ kind: noop }}
      case: [{{ when: "{{{{ event.name == '{name}' }}}}", then: {{ next: end }} }}]
    """

    never = compiled(text, api="noetl.io/v2").only("W_EVENT_NEVER")
    assert "it has no loop" in never.message
    assert "call.done" in never.hint
