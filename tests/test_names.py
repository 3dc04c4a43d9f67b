"""Names in the package are plain, and public class names are used once (docs/style.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_given_up_name_is_in_use_and_no_public_class_name_is_used_twice() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "old_names.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_package_but_its_own_knows_quantum_jobs() -> None:
    """The kind has its policy, its jobs and its stand-ins through what every tool kind may declare. The specification
    names one event after it, so that the log has the word. The two lists of built-in kinds name it, as any other."""
    knowing = {
        str(path.relative_to(ROOT / "src" / "noetl"))
        for path in (ROOT / "src" / "noetl").rglob("*.py")
        if "quantum" in path.read_text("utf-8").lower()
    }

    lists = {"tools/registry.py", "tools/kinds/__init__.py"}
    assert {path for path in knowing if not path.startswith("tools/quantum/")} == {"events/tasks.py", *lists}
