"""docs/tools/ tells of every kind what its declaration says, with an example that the checker accepts."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.tools.kinds import KINDS
from tests.docs.pages import FENCE, ROOT, whole
from tools.tool_pages import EXAMPLES, RUN_HERE, form, tool_page, tool_pages

# Kinds of plug-ins, and credentials and inputs that a snippet cannot declare.
FINE = {"W_TOOL_KIND", "W_KEYCHAIN", "W_WORKLOAD_KEY"}


def test_the_generated_tool_pages_are_current() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.docs", "--check"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, f"{done.stdout}{done.stderr}; run `make docs`"


def test_every_runnable_kind_has_a_page_and_there_are_no_other_pages() -> None:
    pages = {page.name for page in (ROOT / "docs" / "tools").glob("*.md")}

    assert pages == set(tool_pages())
    assert {page.stem for page in EXAMPLES.glob("*.md")} == set(RUN_HERE)


@pytest.mark.parametrize("kind", RUN_HERE)
def test_a_tool_page_shows_an_example_every_input_and_every_error(kind: str) -> None:
    page = tool_page(KINDS[kind])
    examples = [(match[2].strip(), match[3]) for match in FENCE.finditer(page) if match[1] == "yaml"]

    assert any(f"kind: {kind}" in text for _, text in examples)
    for name in (one.name for one in (*KINDS[kind].inputs, *KINDS[kind].spec)):
        assert f"| `{name}` | " in page
    assert [error for error in KINDS[kind].error_kinds if f"| `{error}` | " not in page.partition("## Errors")[2]] == []
    for form_, text in examples:
        checked = check(Source("example", whole(form_, text)), kinds=KINDS)
        assert [(d.code, d.line, d.message) for d in checked.diagnostics if d.code not in FINE] == []


@pytest.mark.parametrize("page", ["README.md", *(f"{kind}.md" for kind in RUN_HERE)])
def test_links_between_the_tool_pages_work(page: str) -> None:
    folder = ROOT / "docs" / "tools"
    links = re.findall(r"\]\(([^)#]+)", (folder / page).read_text())

    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "anything"),
        ({"type": "string"}, "text"),
        ({"type": ["string", "number"]}, "text or number"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "text or list of texts"),
        ({"type": "string", "enum": ["GET", "get", "auto"]}, "`GET`, `auto`"),
    ],
)
def test_schemas_are_described_in_words(schema: dict[str, object], words: str) -> None:
    assert form(schema) == words
