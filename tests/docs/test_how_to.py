"""The how-to pages are true: a whole playbook that is followed by JSON gives that result when it is run."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from noetl.templates.filters import FILTERS
from noetl.templates.functions import FUNCTIONS, PREDICATES
from tests.cli.running import call
from tests.docs.pages import ROOT

RUN = re.compile(r"^```yaml\n(.*?)^```\n\n```json\n(.*?)^```$", re.M | re.S)


def examples() -> list[Any]:
    pages = sorted((ROOT / "docs" / "how-to").glob("*.md"))
    return [
        pytest.param(match[1], json.loads(match[2]), id=f"{page.name}:{number}")
        for page in pages
        for number, match in enumerate(RUN.finditer(page.read_text()), 1)
    ]


@pytest.mark.req("DOC-14")
@pytest.mark.parametrize(("text", "expected"), examples())
def test_a_playbook_on_a_how_to_page_gives_the_documented_result(
    text: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))  # not the store of whoever runs the tests
    playbook = tmp_path / "playbook.yaml"
    playbook.write_text(text)

    code, result, said = call("run", "-q", str(playbook))

    assert code == 0, said
    assert said == "", "no warning is taught"
    assert json.loads(result) == expected


@pytest.mark.parametrize(
    ("row", "known"),
    [("filters", FILTERS), ("tests", PREDICATES), ("functions", FUNCTIONS)],
    ids=["filters", "tests", "functions"],
)
def test_every_template_word_is_on_the_templates_page(row: str, known: Collection[str]) -> None:
    page = (ROOT / "docs" / "how-to" / "templates.md").read_text()
    cells = next(line for line in page.splitlines() if line.startswith(f"| {row}")).split("|")[2]

    assert re.findall(r"`(\w+)`", cells) == sorted(name for name in known if name[0].isalpha())
