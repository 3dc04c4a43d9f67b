"""Puts the web UI and the documentation site into wheel and sdist, as they are in the checkout now.

Nothing is installed here for the documentation: it is built where `make docs-site` or `make wheel` has put its
generator into `.venv`. A release must have the UI (`NOETL_REQUIRE_UI=1`). Where something is missing, the build goes on
without, and the server then says how to get it. What an sdist carries is used as it is, so installing one needs no
Node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NOT_SOURCES = {"node_modules", "test-results"}


class PagesBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        # The files of an sdist have the times at which they were packed, which say nothing about what is newer.
        if version == "editable" or (root / "PKG-INFO").exists():
            return
        if self.target_name == "wheel" and os.environ.get("NOETL_SKIP_UI"):
            return
        self._build_ui(root)
        self._build_docs(root)

    def _build_ui(self, root: Path) -> None:
        if not (root / "ui/package.json").exists() or not is_older(root / "src/noetl/_ui/index.html", root / "ui"):
            return
        if shutil.which("npm") is None:
            self._missing("there is no npm on the path")
            return
        done = subprocess.run(["sh", "tools/ui.sh"], cwd=root, stdout=sys.stderr, check=False)  # noqa: S607
        if done.returncode != 0:
            self._missing("building it failed")

    def _missing(self, why: str) -> None:
        said = f"the web UI of this build is missing or old: {why} (install Node 20 or newer, or set NOETL_SKIP_UI=1)"
        if os.environ.get("NOETL_REQUIRE_UI"):
            raise SystemExit(said)
        self.app.display_warning(said)

    def _build_docs(self, root: Path) -> None:
        generator = root / ".venv/bin/mkdocs"
        sources = (root / "docs", root / "examples", root / "mkdocs.yml", root / "CHANGELOG.md")
        if not generator.exists() or not is_older(root / "src/noetl/_docs/index.html", *sources):
            return
        more = {"PYTHONPATH": "tools", "NO_MKDOCS_2_WARNING": "1"}
        command = [str(generator), "build", "--strict", "--quiet"]
        done = subprocess.run(command, cwd=root, env=os.environ | more, stdout=sys.stderr, check=False)  # noqa: S603
        if done.returncode != 0:
            self.app.display_warning("the documentation of this build is missing or old: mkdocs failed")


def is_older(built: Path, *sources: Path) -> bool:
    """Whether anything that `built` is made of has changed since, or it is not there. A folder changes when a file in
    it is deleted."""
    if not built.exists():
        return True
    made = built.stat().st_mtime
    return any(path.stat().st_mtime > made for source in sources for path in _tree(source))


def _tree(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir():
        for one in path.iterdir():
            if one.name not in _NOT_SOURCES:
                yield from _tree(one)
