"""Steps of the budget stay in proportion to real work, and bombs end within 64 MiB (reliability.md, first ruling).

A child process tries every method, filter, test and operator on values chosen to make it slow, and says what a step
costs there and in an ordinary template. The system ends the child when it takes more processor time than all of it may.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import hostile_templates
from bench.hostile_templates import KINDS, Report
from bench.template_bombs import BIG, BOMBS
from noetl.templates import budget, methods
from noetl.templates.expression import parse
from tests.volume import IS_DEEP, one_in

# A step may cost that many times what it costs in an ordinary template. Real defects cost thousands; a shared processor
# whose caches others fill has made twelve of one.
FACTOR = 40
STEPS = 4_000
SAMPLE = {"methods": 23, "filters": 101, "tests": 29, "operators": 41}  # every so many cases are tried; all, when deep
SIZES = (40, 2_400, 60_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.req("TPL-11")
def test_the_cost_per_step_is_similar_for_any_template(kind: str, size: int) -> None:
    part = "0/1" if IS_DEEP else f"{size % SAMPLE[kind]}/{SAMPLE[kind]}"

    told = hostile_templates.report(kind, size, max_steps=STEPS, factor=FACTOR, cpu_limit_s=600, part=part)

    _holds(told)


@pytest.mark.req("TPL-11")
def test_a_template_with_hidden_work_costs_as_much_as_its_steps() -> None:
    told = hostile_templates.report("bombs", 0, factor=FACTOR, cpu_limit_s=600)

    _holds(told)


def _holds(told: Report) -> None:
    assert not told.unfinished, f"the child was ended at {told.unfinished}"
    assert told.cases
    assert [case for case in told.cases if case.error] == []
    allowed = FACTOR * told.ordinary.step_us
    assert [case for case in told.cases if case.step_us > allowed] == []


@pytest.mark.parametrize("text", ["", "a", "abcabc" * 9, "x" + "ab" * 40 + "y" + "ab" * 40])
@pytest.mark.parametrize("part", ["a", "ab" * 9, "ab" * 40, "b" * 17, "abcabc" * 3, "y" + "ab" * 10])
@pytest.mark.parametrize("bounds", [(), (2,), (-60, -3), (5, 2), (0, 400)])
def test_a_reverse_search_agrees_with_python(text: str, part: str, bounds: tuple[int, ...]) -> None:
    assert methods.rfind(text, part, *bounds) == text.rfind(part, *bounds)
    assert methods.rpartition(text, part) == text.rpartition(part)
    for most in (-1, 0, 1, 3):
        assert methods.rsplit(text, part, most) == text.rsplit(part, most)


def test_a_failed_reverse_search_raises_value_error() -> None:
    with pytest.raises(ValueError):
        methods.rindex("ab" * 40, "c" * 20)


def test_a_search_costs_the_product_of_lengths_in_the_worst_case_and_else_the_sum() -> None:
    tried, linear = budget.searching("a" * 2_000, "a" * 1_000), budget.searching("a" * 200_000, "a" * 1_000)

    assert tried > 1_000_000 // 512
    assert linear < 200_000 // 16
    assert budget.searching("a", "a" * 1_000_000) == 1


def test_texts_of_different_lengths_are_compared_for_free() -> None:
    assert budget.comparing("a" * 100_000, "a" * 100_001) == 0
    assert budget.comparing("a" * 100_000, "a" * 100_000) > 100


ROOT = Path(__file__).parents[2]


@pytest.mark.req("TPL-11")
def test_a_template_bomb_ends_as_an_error_in_bounded_memory() -> None:
    program = [sys.executable, "-m", "tests.templates.bombs_within_memory"]
    told = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=500)
    messages = [json.loads(line) for line in told.stdout.splitlines()]

    ended = dict(zip(one_in(2, BOMBS), messages, strict=True))
    assert [text[:60] for text, message in ended.items() if message is None] == [], told.stderr[-2000:]
    assert [message for message in messages if "\n" in message or len(message) >= 300] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ rows | selectattr('n', 'gt', 9) | map(attribute='n') | sum }}", sum(range(10, 2_000))),
        ("{{ rows | length }}", 2_000),
        ("{{ (rows | sort(attribute='n', reverse=true) | first).n }}", 1_999),
        ("{{ rows | map(attribute='text') | join(',') | length }}", 2_000 * 51 - 1),
        ("{% for row in rows %}{{ row.n % 2 }}{% endfor %}", "01" * 1_000),
        ("{{ (rows | tojson | length) > 100000 }}", True),
        ("{{ rows == rows[:] }}", True),
        ("{{ ('x' * 500000) | upper | length }}", 500_000),
    ],
)
def test_ordinary_work_on_a_few_thousand_rows_fits_the_budget(text: str, expected: object) -> None:
    assert parse(text).evaluate({"rows": BIG}) == expected
