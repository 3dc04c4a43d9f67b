"""Times and durations (TPL-10)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import TemplateError
from noetl.templates.expression import parse

NEW_YEAR = 1_735_689_600.0  # 2025-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ now() + duration('P2D') }}", "2025-01-03T00:00:00Z"),
        ("{{ duration('P2D') + now() }}", "2025-01-03T00:00:00Z"),
        ("{{ now() }}", "2025-01-01T00:00:00Z"),
        ("{{ now() - duration('1h30m') }}", "2024-12-31T22:30:00Z"),
        ("due {{ now() + duration(90) }}", "due 2025-01-01T00:01:30Z"),
        ("{{ duration('48h') }}", 172_800),
        ("{{ duration('500ms') }}", 0.5),
        ("{{ duration('1h') * 2 }}", 7_200),
        ("{{ duration('1h') / duration('30m') }}", 2.0),
        ("wait {{ duration('5m') }} s", "wait 300 s"),
        ("{{ [now(), {'d': duration('1s')}] }}", ["2025-01-01T00:00:00Z", {"d": 1}]),
        ("{{ (now() - (now() - duration('1d'))).days }}", 1),
        ("{{ now() < now() + duration('1s') }}", True),
        ("{{ duration('60s') == duration('1m') }}", True),
        ("{{ duration('2h') > duration('1h') }}", True),
        ("{{ now().year }}-{{ now().strftime('%m') }}", "2025-01"),
        ("{{ now().timestamp() }}", NEW_YEAR),
        ("{{ now() | tojson }}", '"2025-01-01T00:00:00Z"'),
    ],
)
@pytest.mark.req("TPL-10")
def test_times_can_be_added_and_compared_and_become_text_or_seconds(text: str, expected: Any) -> None:
    assert parse(text).evaluate({}, now=NEW_YEAR) == expected


def test_fractions_of_a_second_are_preserved() -> None:
    assert parse("{{ now() }}").evaluate({}, now=NEW_YEAR + 0.25) == "2025-01-01T00:00:00.250000Z"


@pytest.mark.req("TPL-10")
def test_now_is_the_given_time() -> None:
    with pytest.raises(TemplateError, match="without a time"):
        parse("{{ now() }}").evaluate({})
    assert not parse("{{ now() }}").is_constant


@pytest.mark.parametrize(
    "text",
    [
        "{{ duration('soon') }}",
        "{{ duration('P1M') }}",
        "{{ duration([]) }}",
        "{{ now() + 1 }}",
        "{{ now() + now() }}",
        "{{ now() > 5 }}",
        "{{ now() + duration(10**11) * 10**6 }}",
        "{{ now().strftime('%999999999d') }}",
        "{{ now().replace(year=1) }}",
        "{{ now(1) }}",
    ],
)
def test_a_meaningless_time_expression_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text).evaluate({}, now=NEW_YEAR)


def test_a_name_of_the_scope_can_equal_a_function_name() -> None:
    assert parse("{{ now }}{{ range + 1 }}").evaluate({"now": "x", "range": 1}) == "x2"


@pytest.mark.req("TPL-06")
def test_dict_puts_mappings_together() -> None:
    names = {"a": {"x": 1, "y": 2}, "b": {"y": 3}}

    assert parse("{{ dict(a, b, z=4) }}").evaluate(names) == {"x": 1, "y": 3, "z": 4}
    assert names == {"a": {"x": 1, "y": 2}, "b": {"y": 3}}
    with pytest.raises(TemplateError, match="dict\\(\\) takes mappings, named values, or both"):
        parse("{{ dict(a, [1]) }}").evaluate(names)
