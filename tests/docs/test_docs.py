"""The docs are true: every YAML block checks, and every console example prints what it says.

A ```yaml block is a whole playbook. ```yaml step and ```yaml task hold a list of steps or tasks, which are put into a
playbook first. In a ```console block each line after `$ ` is run where the examples are; a line of `…` stands for any
number of lines, and `…` inside a line for any text; `… ms` and `… s` for any time, since machines differ.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from noetl.base.diagnostics import Severity, Source
from noetl.language.checking import check
from noetl.tools.kinds import KINDS
from tests.docs.pages import FENCE, ROOT, pattern, whole
from tests.forked import run_line

# The specification's fixtures have tests of their own, and checks.md shows mistakes on purpose (it is generated).
PAGES = [
    ROOT / "README.md",
    *(
        p
        for p in sorted((ROOT / "docs").rglob("*.md"))
        if "spec" not in p.relative_to(ROOT / "docs").parts[:1] and p.name != "checks.md"
    ),
]


def blocks(language: str) -> list[object]:
    found: list[object] = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match[1] == language:
                line = text[: match.start()].count("\n") + 1
                found.append(pytest.param(match[2].strip(), match[3], id=f"{page.relative_to(ROOT)}:{line}"))
    return found


@pytest.mark.req("DOC-14")
@pytest.mark.parametrize(("form", "text"), blocks("yaml"))
def test_every_yaml_block_passes_the_check(form: str, text: str) -> None:
    assert form in ("", "step", "task")

    checked = check(Source("block", whole(form, text)), kinds=KINDS)

    assert [(d.code, d.line, d.message) for d in checked.diagnostics if d.severity is Severity.ERROR] == []


@pytest.mark.req("DOC-14")
@pytest.mark.parametrize(
    "page",
    [
        "dsl/overview.md",
        "dsl/spec.md",
        "runtime/events.md",
        "runtime/control-plane-vs-workers.md",
        "profiles/quantum.md",
        "migration.md",
    ],
)
def test_the_recommended_pages_exist(page: str) -> None:
    assert (ROOT / "docs" / page).read_text().startswith("# ")


@pytest.mark.parametrize(("form", "text"), blocks("console"))
def test_every_console_example_prints_the_documented_output(form: str, text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "NOETL_HOME": str(tmp_path / "home"),
        "COLUMNS": "110",
    }

    for example in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = example.partition("\n")
        done = run_line(command, folder=tmp_path, environment=environment, timeout=500)
        printed = done.stdout + done.stderr

        assert re.fullmatch(pattern(expected), printed.rstrip() + "\n"), f"$ {command}\n{printed}"
