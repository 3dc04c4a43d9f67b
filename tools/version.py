"""The version of a build, which grows with every change: `python3 tools/version.py` prints it.

The newest section of CHANGELOG.md names the release. While it is unreleased, a build is `0.2.0.dev20261117183012`: the
time of its last commit, so that pip sees that a later build is newer. With a date in place of "unreleased" it is
`0.2.0`. Hatchling calls this when it builds; it may use nothing but the standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(r"^## (\d+\.\d+\.\d+) — (unreleased|\d{4}-\d{2}-\d{2})$", re.MULTILINE)
_LEVEL = re.compile(r"\d+\.\d+\.\d+(\.dev\d+)?")


def build_version(root: Path = ROOT) -> str:
    """`NOETL_BUILD_VERSION` says it where there is no repository, as in the build of an image."""
    if chosen := os.environ.get("NOETL_BUILD_VERSION"):
        if _LEVEL.fullmatch(chosen) is None:
            raise SystemExit(
                f"NOETL_BUILD_VERSION is {chosen!r}, not a version such as 0.2.0 or 0.2.0.dev20261117183012"
            )
        return chosen
    release, is_released = newest_release((root / "CHANGELOG.md").read_text())
    return release if is_released else f"{release}.dev{_build_number(root)}"


def newest_release(changelog: str) -> tuple[str, bool]:
    """The version that the first section names, and whether it has been released."""
    first = _SECTION.search(changelog)
    heading = re.search(r"^## .*$", changelog, re.MULTILINE)
    if first is None or heading is None or first.start() != heading.start():
        found = heading[0] if heading is not None else "no section"
        raise SystemExit(
            f'CHANGELOG.md begins with "{found}", not with "## 1.2.3 — unreleased" or a date in place of the word'
        )
    return first[1], first[2] != "unreleased"


def _build_number(root: Path) -> str:
    """The time of the last commit, or of now where files differ from it. Commits are not counted: a shallow clone has
    too few of them, and its builds would look older than those before."""
    if not (root / ".git").exists():  # a copy may lie inside the repository of another project
        return "0"
    committed = _git(root, "log", "-1", "--format=%ct")
    if committed is None:
        return "0"
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        return f"{datetime.now(UTC):%Y%m%d%H%M%S}"
    return f"{datetime.fromtimestamp(int(committed), UTC):%Y%m%d%H%M%S}"


def _git(root: Path, *words: str) -> str | None:
    """The output of git; none if it is not installed, or fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    print(build_version())
