"""A command in a process of its own, as where noetl is installed: modules are compiled already."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOETL = Path(sys.executable).parent / "noetl"


def cold(*arguments: str) -> float:
    """Seconds from start to exit."""
    start = time.perf_counter()
    subprocess.run([str(NOETL), *arguments], cwd=ROOT, env=_environment(), capture_output=True, check=True)
    return time.perf_counter() - start


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    """Compiled modules are kept, in a place of their own: a switch of the caller's, or a source edited a moment ago,
    would have them compiled each time."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "noetl-bench-compiled")}
    warm_up = [str(NOETL), "run", "--memory", "examples/hello.yaml"]
    subprocess.run(warm_up, cwd=ROOT, env=environment, capture_output=True, check=True)
    return environment
