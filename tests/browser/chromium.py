"""Chromium for the browser tests: the headless one, else the one on the path, else one that is installed where that is
allowed. `why_not` gives the reason if there is none.

A whole Chromium draws windows, toolbars and all, for every profile that a test opens, although they are invisible: a
page costs 1.9 s of processor time there and 0.8 s in `chromium-headless-shell`, which is the same engine and nothing
else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.servers.environments import debian_environment, installation_lock

SHELL = "chromium-headless-shell"
UI = Path(__file__).parents[2] / "src" / "noetl" / "_ui" / "index.html"
ARGUMENTS = [
    "--no-sandbox",  # root, as in containers, has no sandbox to use
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Tabs of one server need no process each, which would read and compile the same scripts again: thirty of them cost
    # half of the processor time together.
    "--process-per-site",
    "--site-per-process",  # as a whole Chromium does: a frame that runs nothing has a process of its own
]


@cache
def program() -> str | None:
    # Two processes run the browser tests, and apt-get refuses to run twice.
    with installation_lock("chromium"):
        found = shutil.which(SHELL) or _unpacked_shell() or _on_path()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _apt_get("update", "-qq")
            for package in (SHELL, "chromium"):  # the first is younger: older systems have the second only
                _apt_get("install", "-y", "-qq", "--no-install-recommends", package, "fonts-dejavu-core")
                if (found := shutil.which(SHELL) or _on_path()) is not None:
                    break
    return found


def _unpacked_shell() -> str | None:
    """Beside a Chromium that is installed, whose libraries and fonts it needs, it is unpacked and not installed."""
    if _on_path() is None:
        return None
    try:
        unpacked = debian_environment(SHELL, SHELL, "chromium-common") / "usr/lib/chromium" / SHELL
    except pytest.skip.Exception:  # another system, or no way to its packages: the one on the path will do
        return None
    version = subprocess.run([unpacked, "--version"], capture_output=True, check=False)
    return str(unpacked) if version.returncode == 0 else None


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
