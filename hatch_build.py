"""Puts the built web UI into wheel and sdist.

A release must have it (`NOETL_REQUIRE_UI=1`). An install from a checkout without Node goes on without: its server then
says how to get one. What an sdist carries is used as it is, so installing one needs no Node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class UiBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or (self.target_name == "wheel" and os.environ.get("NOETL_SKIP_UI")):
            return
        root = Path(self.root)
        if (root / "src/noetl/_ui/index.html").exists() or not (root / "ui/package.json").exists():
            return
        required = bool(os.environ.get("NOETL_REQUIRE_UI"))
        if shutil.which("npm") is None:
            self._missing("there is no npm on the path", required)
            return
        done = subprocess.run(["sh", "tools/ui.sh"], cwd=root, stdout=sys.stderr, check=False)  # noqa: S607
        if done.returncode != 0:
            self._missing("building it failed", required)

    def _missing(self, why: str, required: bool) -> None:
        said = f"the web UI is not in this build: {why} (install Node 20 or newer, or set NOETL_SKIP_UI=1)"
        if required:
            raise SystemExit(said)
        self.app.display_warning(said)
