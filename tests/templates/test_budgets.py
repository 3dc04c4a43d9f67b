"""Resource bombs end as ordinary errors, within 64 MiB (reliability.md, first ruling)."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from bench.template_bombs import BIG, BOMBS, SCOPE
from noetl.base.errors import TemplateError
from noetl.templates.expression import parse


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: text[:40].replace("\n", " "))
@pytest.mark.req("TPL-11")
def test_a_bomb_ends_as_an_error_in_bounded_memory(text: str) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        _explode(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 64 * 1024 * 1024, f"{peak >> 20} MiB"


def _explode(text: str) -> None:
    parse.cache_clear()
    with pytest.raises(TemplateError) as caught:
        parse(text).evaluate(SCOPE, now=0.0)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


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
def test_ordinary_work_on_a_few_thousand_rows_fits(text: str, expected: object) -> None:
    assert parse(text).evaluate({"rows": BIG}) == expected
