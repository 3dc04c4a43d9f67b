"""`make demo` from a fresh clone: it ends well, shows a run against its own API, and says where to look next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.demo_api import SHOPS

ROOT = Path(__file__).parents[2]


def test_the_demo_runs_the_paginated_example_and_shows_its_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo"],
        cwd=ROOT,
        env={**os.environ, "NOETL_HOME": str(tmp_path), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )

    assert done.returncode == 0, done.stdout
    assert "$ noetl run examples/pages_to_duckdb.yaml" in done.stdout
    assert "fetch             ▸ loop of 9" in done.stdout
    assert f'"orders": {sum(SHOPS.values())}' in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [[shop, str(count)] for shop, count in SHOPS.items() if [shop, str(count)] not in rows] == []
    assert "noetl events last" in done.stdout


def test_files_that_the_demo_names_exist() -> None:
    text = (ROOT / "tools" / "demo.py").read_text()

    for named in ("examples/README.md", "docs/concepts.md", "docs/dsl/overview.md", "docs/tools/"):
        assert named in text
        assert (ROOT / named).exists()
