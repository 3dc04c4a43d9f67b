"""The changelog is grouped by kind and area, in one order, so that a reader finds breaking changes first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
KINDS = ["Breaking changes and what to do", "Added", "Changed", "Fixed", "Security"]
AREAS = ["Playbooks", "Tools", "CLI", "Web UI", "API", "Server and workers", "Operations"]
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
HEADING = re.compile(r"^(#{3,}) (.+)$", re.MULTILINE)


def section_mistakes(title: str, body: str) -> list[str]:
    """What is wrong with the groups of one version: names, order, entries outside of a group."""
    mistakes: list[str] = []
    kinds: list[str] = []
    areas: list[str] = []
    for marks, name in HEADING.findall(body):
        known, found = (KINDS, kinds) if marks == "###" else (AREAS, areas)
        if name not in known:
            mistakes.append(f'{title}: "{name}" is none of {", ".join(known)}')
            continue
        if found and known.index(name) <= known.index(found[-1]):
            mistakes.append(f'{title}: "{name}" comes after "{found[-1]}"')
        found.append(name)
        if marks == "###":
            areas.clear()
    ungrouped = re.search(r"^- ", HEADING.split(body)[0], re.MULTILINE)
    if ungrouped and not title.endswith("unreleased"):
        mistakes.append(f"{title}: an entry is in no group")
    return mistakes


def changelog_mistakes(text: str) -> list[str]:
    parts = SECTION.split(text)[1:]
    return [
        mistake
        for title, body in zip(parts[::2], parts[1::2], strict=True)
        for mistake in section_mistakes(title, body)
    ]


def test_entries_are_grouped_by_kind_and_area() -> None:
    assert changelog_mistakes(CHANGELOG.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("## 1.0.0 — unreleased\n\n### Fixed\n\n- a\n\n### Added\n\n- b\n", '"Added" comes after "Fixed"'),
        ("## 1.0.0 — unreleased\n\n### Added\n\n#### API\n\n- a\n\n#### CLI\n\n- b\n", '"CLI" comes after "API"'),
        ("## 1.0.0 — unreleased\n\n### Bugs\n\n- a\n", '"Bugs" is none of'),
        ("## 1.0.0 — 2027-01-01\n\n- a\n\n### Added\n\n- b\n", "an entry is in no group"),
    ],
)
def test_an_entry_out_of_place_is_found(text: str, mistake: str) -> None:
    assert mistake in "".join(changelog_mistakes(text))


def test_entries_of_an_unreleased_version_may_wait_to_be_sorted() -> None:
    assert changelog_mistakes("## 1.0.0 — unreleased\n\n- a\n\n### Added\n\n#### CLI\n\n- b\n") == []
