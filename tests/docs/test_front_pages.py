"""The ways into the code stay true: every file that a front page names is there, and every decision is listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "noetl"
DECISIONS = ROOT / "docs" / "decisions"
NAMED = re.compile(r"`([\w/]+\.py)`")
FRONT_PAGES = sorted(SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: str(page.parent.relative_to(SOURCE)))
def test_every_file_that_a_docs_front_page_names_exists(page: Path) -> None:
    text = ast.get_docstring(ast.parse(page.read_text())) or ""

    assert text, "every package has a front page"
    places = {name: (page.parent / name, SOURCE / name, ROOT / name) for name in NAMED.findall(text)}
    assert [name for name, found in places.items() if not any(place.exists() for place in found)] == []


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (DECISIONS / "README.md").read_text())

    assert listed == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
