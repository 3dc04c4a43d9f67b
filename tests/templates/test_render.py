"""Rendering authored data, native values and the truth of guards (TPL-01, TPL-02, TPL-08, TPL-09)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import TemplateError
from noetl.templates.budget import MAX_STEPS
from noetl.templates.expression import parse
from noetl.templates.render import holds, render, render_within, truth
from noetl.templates.values import Authored


@pytest.mark.req("TPL-01")
def test_rendering_recurses_into_mappings_and_lists_and_copies_the_rest() -> None:
    authored = Authored({"page": "{{ 1 + 1 }}", "flags": [True, "{{ 'a' }}"], "n": 7, "none": None})

    assert render(authored, {}) == {"page": 2, "flags": [True, "a"], "n": 7, "none": None}


@pytest.mark.req("TPL-01")
def test_keys_are_rendered_only_on_request() -> None:
    data = {"r.{{ iter.index }}": "{{ iter.x }}"}
    scope = {"iter": {"index": 2, "x": "v"}}

    assert render(data, scope) == {"r.{{ iter.index }}": "v"}
    assert render(data, scope, keys=True) == {"r.2": "v"}


@pytest.mark.req("TPL-01")
def test_a_key_that_does_not_render_to_a_name_is_an_error() -> None:
    with pytest.raises(TemplateError, match="does not give a name"):
        render({"{{ nope }}": 1}, {}, keys=True)


@pytest.mark.req("TPL-01")
def test_a_rendered_value_is_never_rendered_again() -> None:
    assert render("{{ workload.t }}", {"workload": {"t": "{{ 1 + 1 }}"}}) == "{{ 1 + 1 }}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ iter.http_status }}", 404),
        ("{{ iter.http_status == 404 }}", True),
        ("{{ iter.has_more == true }}", True),
        ("{{ workload.n }}", "404"),
        ("{{ workload.n | string }}", "404"),
        ("p{{ 1 }}", "p1"),
        ("{{ 'p' }}{{ 1 }}", "p1"),
        ("{{ '1' }}{{ '2' }}", "12"),
        ("{{ [1, 2] | map('string') | join(',') }}", "1,2"),
        ("{{ '007' }}", "007"),
        ("{{ '[1, 2]' }}", "[1, 2]"),
        ("{{ workload.list }}", [1, {"a": None}]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ {'a': [nope]} }}", {"a": [None]}),
        ("{{ 1.5 }}", 1.5),
        ("{{ -3 }}", -3),
        ("{{ none }}", None),
        ("{# why #}{{ 1 }}", 1),
        ("{{ workload.n }} ", "404 "),
        ("{% if true %}{{ 1 }}{% endif %}", "1"),
        ("no template", "no template"),
        ("{{ workload.flag }}|{{ workload.list }}|{{ nope }}", "True|[1, {'a': None}]|"),
    ],
)
@pytest.mark.req("TPL-02")
def test_one_expression_keeps_its_type_and_text_is_never_parsed(text: str, expected: Any) -> None:
    scope = {
        "iter": {"http_status": 404, "has_more": True},
        "workload": {"n": "404", "list": [1, {"a": None}], "flag": True},
    }

    value = parse(text).evaluate(scope)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("ending", ["\n", "\n\n"])
@pytest.mark.parametrize("text", ["{{ ctx.n }}", "{{ ctx.n + 0 }}"])
@pytest.mark.req("TPL-02")
def test_the_newline_of_a_block_scalar_does_not_turn_a_value_into_text(text: str, ending: str) -> None:
    assert parse(text + ending).single
    assert parse(text + ending).evaluate({"ctx": {"n": 4}}) == 4


@pytest.mark.parametrize("text", ["a {{ ctx.n }}\n", "a {{ ctx.n + 0 }}\n", "{% if 1 %}a {{ ctx.n }}{% endif %}\n"])
def test_text_keeps_its_final_newline(text: str) -> None:
    assert parse(text).evaluate({"ctx": {"n": 4}}) == "a 4\n"


TRUTHS: list[Any] = [True, 1, -0.5, [0], {"a": 1}, "x", "yes", "true", "1", "0.0"]
FALSEHOODS: list[Any] = [False, 0, 0.0, [], {}, None, "", "  ", "False", " FALSE ", "0", "no", "None", "null"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in TRUTHS),
        *((value, False) for value in FALSEHOODS),
    ],
)
@pytest.mark.req("TPL-08")
def test_guards_follow_the_truthiness_rules(value: Any, expected: bool) -> None:
    assert truth(value) is expected
    assert holds(Authored("{{ ctx.v }}"), {"ctx": {"v": value}}) is expected


@pytest.mark.parametrize(
    ("guard", "expected"), [("{{ 'False' }}", False), (True, True), (False, False), ("true", True), ("false", False)]
)
@pytest.mark.req("TPL-08")
def test_a_guard_can_be_a_boolean_or_the_words_true_and_false(guard: Any, expected: bool) -> None:
    assert holds(Authored(guard), {}) is expected


@pytest.mark.req("TPL-09")
def test_a_failing_guard_is_an_error_and_not_a_mismatch() -> None:
    with pytest.raises(TemplateError, match="division by zero") as caught:
        holds(Authored("{{ 1/0 }}"), {})

    assert caught.value.kind == "template.error"


def test_data_of_the_scope_is_returned_without_a_copy() -> None:
    """A large result passed on by name must not cost its size."""
    rows = [{"n": n} for n in range(3)]

    assert parse("{{ fetch.rows | default([]) }}").evaluate({"fetch": {"rows": rows}}) is rows


def test_views_inside_a_namespace_are_returned_as_data() -> None:
    class Late:
        def lookup(self, name: str) -> Any:
            return {"n": 1}[name]

        def value(self) -> Any:
            return {"n": 1}

    event = {"name": "step.done", "result": Late()}

    for text in ("{{ event }}", "{{ event or 1 }}", "{{ [event][0] }}"):
        assert parse(text).evaluate({"event": event}) == {"name": "step.done", "result": {"n": 1}}


def test_endlessly_nested_data_is_refused() -> None:
    data: Any = "{{ 1 }}"
    for _ in range(200):
        data = [data]

    with pytest.raises(TemplateError, match="nested"):
        render(data, {})


def test_templates_with_a_shared_budget_are_refused_when_they_exceed_it_together() -> None:
    one = "{{ range(1000) | sum }}"

    assert render_within(MAX_STEPS, {"a": [one, "text"]}, {}) == {"a": [499_500, "text"]}
    with pytest.raises(TemplateError, match="too much work"):
        render_within(MAX_STEPS, [one] * 200, {})


def test_a_list_of_short_templates_uses_budget() -> None:
    with pytest.raises(TemplateError, match="too much work"):
        render_within(MAX_STEPS, ["{{ 1 + 1 }}"] * 5_000, {})
