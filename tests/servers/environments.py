"""Environments of their own for heavy counterparts: made on first use, kept in the user's cache, shared by all runs.

Where one cannot be made (no index, no npm), the tests that need it are skipped, and the reason says why.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from platformdirs import user_cache_path

_LONGEST_S = 900


@cache
def python_environment(name: str, *requirements: str) -> Path:
    """A virtual environment with these packages; its `bin` folder."""

    def make(folder: Path) -> None:
        if (
            uv := shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        ) is not None:
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
            _run(uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *requirements)
            return
        _run(sys.executable, "-m", "venv", str(folder))
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(str(folder / "bin/python"), *pip, *requirements)

    return _made(name, requirements, make) / "bin"


@cache
def node_environment(name: str, *packages: str) -> Path:
    """A folder with these npm packages; its folder of programs."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip(f"NOT TESTED: {name} needs npm, which is not installed")

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        _run(npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), *packages)

    return _made(name, packages, make) / "node_modules/.bin"


def _cache_folder() -> Path:
    return Path(os.environ.get("NOETL_TEST_CACHE") or user_cache_path("noetl-tests"))


@contextmanager
def installation_lock(name: str) -> Iterator[None]:
    """Only one test process at a time installs what has this name."""
    root = _cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made(name: str, contents: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    """The folder, made by whichever test process comes first. A half-made one is thrown away."""
    digest = hashlib.sha256("\n".join((sys.version, *contents)).encode()).hexdigest()[:12]
    root = _cache_folder()
    folder, done = root / f"{name}-{digest}", root / f"{name}-{digest}.done"
    with installation_lock(name):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                make(folder)
            except (OSError, subprocess.SubprocessError) as problem:
                said = getattr(problem, "stderr", b"") or b""
                pytest.skip(
                    f"NOT TESTED: {name} could not be installed: {said.decode(errors='replace')[-300:] or problem}"
                )
            done.touch()
    return folder


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_LONGEST_S)


@cache
def debian_environment(name: str, *packages: str) -> Path:
    """A folder with the contents of these Debian packages, unpacked and not installed."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip(f"NOT TESTED: {name} comes from Debian, and this system has no apt-get")

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        subprocess.run(
            ["apt-get", "download", *packages], check=True, capture_output=True, timeout=_LONGEST_S, cwd=folder
        )
        for package in folder.glob("*.deb"):
            _run("dpkg-deb", "-x", str(package), str(folder / "root"))
            package.unlink()

    return _made(name, packages, make) / "root"


def library_path(root: Path) -> dict[str, str]:
    """The environment in which programs of an unpacked folder find its libraries."""
    folders = [str(path) for place in ("usr/lib", "lib") for path in (root / place).glob("*-linux-gnu")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(folders)}
