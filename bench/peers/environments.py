"""Environments of the peers: made on first use under `.cache/bench-peers`, one virtual environment each.

They are no part of the project's own environment: their dependencies disagree with ours and with each other's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache" / "bench-peers"
PACKAGES = {
    "dbos": ("dbos==3.3.0",),
    "restate": ("restate-sdk[serde]", "hypercorn", "aiohttp"),
    "dlt": ("dlt[filesystem,parquet,postgres]==1.31.0", "psycopg2-binary", "sqlalchemy>=2.0,<2.1"),
}
RESTATE_SERVER = "@restatedev/restate-server"


@dataclass(frozen=True)
class Environment:
    """What a peer's script is run with."""

    python: Path
    variables: dict[str, str]


def environment(peer: str) -> Environment:
    """The peer's environment, installed if it is not there yet. `RuntimeError` where it cannot be."""
    folder = CACHE / peer
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[peer])
        ready.touch()
    return Environment(python, {"RESTATE_SERVER": str(restate_server())} if peer == "restate" else {})


def restate_server() -> Path:
    """The server's program: it comes inside an npm package."""
    folder = CACHE / "restate-server"
    if not _programs(folder):
        if shutil.which("npm") is None:
            raise RuntimeError("Restate's server is an npm package, and there is no npm here")
        folder.mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), RESTATE_SERVER)
    found = _programs(folder)
    if not found:
        raise RuntimeError(f"{RESTATE_SERVER} brings no program for this machine")
    return found[0]


def _programs(folder: Path) -> list[Path]:
    """Executables of that name; the package's own launcher is a script, which costs a process."""
    found = folder.glob("node_modules/@restatedev/*/bin/restate-server")
    return sorted(one for one in found if os.access(one, os.X_OK) and one.read_bytes()[:4] == b"\x7fELF")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} … failed: {done.stderr.strip()[-500:]}")
