"""The commands of the tutorial that need an API or a server, page by page, with real ones, as a reader types them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import pattern
from tests.forked import run_line
from tools.demo_api import DemoApi

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.name for path in (ROOT / "docs" / "tutorial").glob("*.md") if "```shell-session" in path.read_text("utf-8")
)
pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start


@pytest.mark.parametrize("page", PAGES)
def test_every_tutorial_command_prints_the_documented_output(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    text = (ROOT / "docs" / "tutorial" / page).read_text("utf-8")
    blocks = re.findall(r"^```shell-session\n(.*?)^```$", text, re.M | re.S)
    with DemoApi() as api:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NO_COLOR": "1",
            "NOETL_HOME": str(tmp_path / "home"),
            "COLUMNS": "110",
            "API": api.url,
        }
        try:
            for example in re.split(r"^\$ ", "".join(blocks), flags=re.M)[1:]:
                command, _, expected = example.partition("\n")
                printed = output_of(command, tmp_path, environment)
                assert re.fullmatch(pattern(expected), printed.rstrip() + "\n"), f"$ {command}\n{printed}"
        finally:
            for kind in ("worker", "server"):
                output_of(f"noetl {kind} stop --all --force --timeout 5", tmp_path, environment)


def output_of(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = run_line(command, folder=folder, environment=environment, timeout=500)
    return done.stdout + done.stderr


def test_tutorial_pages_with_commands_are_found() -> None:
    assert PAGES == ["loop.md", "secrets.md", "server.md"]
