"""Chromium for the browser tests: the one on the path, else installed where that is allowed, else a word why not."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

UI = Path(__file__).parents[2] / "src" / "noetl" / "_ui" / "index.html"
ARGUMENTS = [
    "--no-sandbox",  # root, as in containers, has no sandbox to use
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@cache
def program() -> str | None:
    found = _on_path()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_get("update", "-qq")
        _apt_get("install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core")
        found = _on_path()
    return found


def _apt_get(*arguments: str) -> None:
    subprocess.run(
        ["apt-get", *arguments],
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _on_path() -> str | None:
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


def why_not() -> str:
    """Why the browser tests cannot run here; empty when they can."""
    if not UI.exists():
        return "the web UI is not built (make ui needs Node 20 or newer)"
    if program() is None:
        return "there is no Chromium, and it may not be installed here (apt-get install chromium)"
    return ""
