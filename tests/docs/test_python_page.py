"""The programs of docs/python.md and docs/runtime/tokens.md run as they stand, and print what they are about."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes_here import here

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
ROOT = Path(__file__).parents[2]
PAGES = ("docs/python.md", "docs/runtime/tokens.md")
PROGRAMS = [
    program
    for page in PAGES
    for program in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), flags=re.M | re.S)
]
PRINTED = (
    "completed {'greeting': 'hello, ann'}\n",
    "['hello, ann', 'hello, bob']\n",
    "True order 7 was paid with 30\nplaybook.processed\n",
    "".join(f"hello, day {day}\n" for day in range(1, 32)),
)


@pytest.mark.parametrize(("program", "printed"), list(zip(PROGRAMS, PRINTED, strict=True)))
def test_every_python_example_prints_the_documented_output(program: str, printed: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with here(tmp_path) as place:
        there = {}
        if "NOETL_SERVER" in program:
            there = {"NOETL_SERVER": place.server("--workers-in-process", "2"), "NOETL_TOKEN": place.token}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=place.environment(**there),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
