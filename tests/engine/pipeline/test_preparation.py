"""Step-level args of a looped step, which see its iterations (TPL-05, design.md §5)."""

from __future__ import annotations

import pytest

from tests.playbook_runs import run_here


@pytest.mark.req("TPL-05", "LOOP-03")
def test_args_of_a_looped_step_read_the_iterator_and_iter() -> None:
    text = """
    workload: {base: 10}
    workflow:
      - step: start
        loop: {in: "{{ [{'n': 1}, {'n': 2}] }}", iterator: item}
        args:
          a: "{{ item.n }}"
          b: "{{ iter.item.n + base }}"
          c: "{{ iter.index }}"
          d: "{{ base }}"
          e: {f: "{{ loop_index }}"}
        tool: {kind: noop, args: {got: "{{ [args.a, args.b, args.c, args.d, args.e.f] }}"}}
    """

    assert run_here(text).result.result == [{"got": [1, 11, 0, 10, 0]}, {"got": [2, 12, 1, 10, 1]}]


@pytest.mark.req("TPL-05")
def test_token_args_override_args_of_the_iteration() -> None:
    text = """
    workflow:
      - step: start
        next: {arcs: [{step: each, args: {a: given}}]}
      - step: each
        loop: {in: "{{ [1, 2] }}", iterator: item, spec: {mode: parallel}}
        args: {a: "{{ item }}", b: "{{ item * 2 }}"}
        tool: {kind: noop, args: {got: "{{ args }}"}}
    """

    assert run_here(text).result.result == [{"got": {"a": "given", "b": 2}}, {"got": {"a": "given", "b": 4}}]


@pytest.mark.req("TPL-05", "LOOP-06")
def test_args_read_the_iterators_of_every_level() -> None:
    text = """
    workflow:
      - step: start
        loop: {in: "{{ [1, 2] }}", iterator: row, loop: {in: "{{ ['a'] }}", iterator: column}}
        args: {at: "{{ column }}{{ row }}"}
        tool: {name: one, kind: python, code: x, args: {at: "{{ args.at }}"}}
    """

    ran = run_here(text)

    assert [inputs["args"] for inputs in ran.tool.inputs_of("one")] == [{"at": "a1"}, {"at": "a2"}]


@pytest.mark.req("TPL-09")
def test_args_that_cannot_be_rendered_fail_their_iteration() -> None:
    text = """
    workflow:
      - step: start
        loop: {in: "{{ [1, 0] }}", iterator: item}
        args: {a: "{{ 1 / item }}"}
        tool: {kind: noop, args: {got: "{{ args.a }}"}}
    """

    ended = run_here(text).result

    assert ended.error is not None
    assert 'args of step "start"' in str(ended.error)
