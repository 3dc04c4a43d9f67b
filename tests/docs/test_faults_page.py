"""docs/spec/faults.md and attacks.md name tests that there are, and faults.md every crash point."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.base.crash_points import SERVER_POINTS, STORE_POINTS, WORKER_POINTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec" / "faults.md").read_text("utf-8")
ATTACKS = (ROOT / "docs" / "spec" / "attacks.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE + ATTACKS)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda one: one)
def test_every_test_named_on_the_faults_page_exists(file: str, test: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert re.search(rf"^(async )?def {test}\(", text, re.M), f"{file} has no {test}"


def test_every_row_names_its_test() -> None:
    # Tables with another header hold figures.
    tables = re.findall(r"^\| Fault \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.M)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []


def test_every_promise_names_its_test() -> None:
    rows = [line for line in ATTACKS.splitlines() if line.startswith("| ") and not line.startswith("| Promise")]
    assert len(rows) > 60
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []


def test_a_fault_is_marked_deep_exactly_if_its_test_is() -> None:
    """As far as a test is marked as a whole; of some, only the larger share is."""
    for row in PAGE.splitlines():
        if not (found := re.search(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)):
            continue
        text = (ROOT / found[1]).read_text("utf-8")
        marks = text[: text.index(f"def {found[2]}(")].rpartition("\n\n\n")[2]
        if "@pytest.mark.deep" in marks:
            assert "deep" in row, f"{found[2]} is deep"
        if "deep" in row:
            assert "deep" in text, f"{found[2]} is not"


def test_every_crash_point_is_on_the_page() -> None:
    assert [one for one in (*SERVER_POINTS, *WORKER_POINTS, *STORE_POINTS) if f"`{one}`" not in PAGE] == []
