"""Resource bombs end as ordinary errors, within 64 MiB (reliability.md, first ruling)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.template_bombs import BIG, BOMBS
from noetl.templates.expression import parse
from tests.volume import one_in

ROOT = Path(__file__).parents[2]


@pytest.mark.req("TPL-11")
def test_a_bomb_ends_as_an_error_in_bounded_memory() -> None:
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
def test_ordinary_work_on_a_few_thousand_rows_fits(text: str, expected: object) -> None:
    assert parse(text).evaluate({"rows": BIG}) == expected
