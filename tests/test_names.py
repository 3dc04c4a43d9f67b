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
