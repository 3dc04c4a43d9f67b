"""Links between the pages of the repository, as a code forge follows them: no dead one, and no page without one.

`test_site.py` checks the links of the built site; files beside docs/, such as README.md, are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

OUTSIDE = ("http:", "https:", "mailto:")
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "ui" / "DESIGN.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The first page of the site, and pages for contributors that a folder leads to.
ENTRIES = {ROOT / "README.md", ROOT / "docs" / "index.md"}


@cache
def prose(page: Path) -> str:
    """A page without its code, in which brackets and parentheses are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S))


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each link of a page to the repository: as it is written, its file, and the anchor in it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not link.startswith(OUTSIDE):
            file, _, anchor = link.partition("#")
            yield link, (page.parent / file).resolve() if file else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    dead = [link for link, file, _ in links(page) if not file.exists()]
    lost = [
        link
        for link, file, anchor in links(page)
        if anchor and file.suffix == ".md" and file.exists() and anchor not in anchors(file)
    ]

    assert (dead, lost) == ([], [])


def test_every_page_is_linked_from_another() -> None:
    linked = {file for page in PAGES for _, file, _ in links(page) if file != page}

    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in linked | ENTRIES] == []
