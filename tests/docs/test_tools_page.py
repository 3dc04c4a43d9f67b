"""docs/spec/tools.md names tests that there are, and says something of every kind in every section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.tools.registry import BUILT_IN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec" / "tools.md").read_text("utf-8")
CONFORMANCE = "tests/testing/test_tool_conformance.py"  # its tests are inherited: it checks its own rows of the page
NAMED = sorted(set(re.findall(rf"`(?!{CONFORMANCE})(tests/[\w/]+\.py)::((?:Test\w+::)?)(test_\w+)`", PAGE)))
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:]}
# They work with nothing outside of this machine, or have pages of tests of their own.
OTHERS = {"artifact", "log", "noop", "playbook", "python", "quantum", "script", "secrets", "shell"}


def _rows(section: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| (?!Kinds)([a-z][^|]*) \| ([^|]+) \|$", SECTIONS[section], re.M)


@pytest.mark.parametrize(("file", "group", "test"), NAMED, ids=lambda one: one)
def test_every_test_named_on_the_tools_page_exists(file: str, group: str, test: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert not group or f"class {group.removesuffix('::')}" in text, f"{file} has no {group}"
    assert re.search(rf"^{'    ' if group else ''}(async )?def {test}\(", text, re.M), f"{file} has no {test}"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_tool_kind_is_on_the_page(section: str) -> None:
    told = {kind for kinds, _ in _rows(section) for kind in kinds.replace(" (deep)", "").split(", ")}
    assert told == set(BUILT_IN) - OTHERS


def test_every_row_names_a_test_or_a_reason() -> None:
    rows = [row for section in SECTIONS for row in _rows(section)]
    assert len(rows) > 150
    assert [row for row in rows if not row[1].startswith(("`tests/", "none: ", "missing: "))] == []


def test_a_tools_row_is_marked_deep_exactly_if_its_test_is() -> None:
    for kinds, told in (row for section in SECTIONS for row in _rows(section)):
        if not (found := re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", told)):
            continue
        text = (ROOT / found[1]).read_text("utf-8")
        marks = text[: text.index(f"def {found[2]}(")].rpartition("\n\n\n")[2]
        whole = re.search(r"^pytestmark = .*deep", text, re.M)
        assert ("@pytest.mark.deep" in marks or whole is not None) == kinds.endswith("(deep)"), f"{kinds}: {found[2]}"
