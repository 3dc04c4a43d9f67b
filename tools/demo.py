"""`make demo`: what NoETL does, shown on the examples, each command as you would type it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOETL = Path(sys.executable).parent / "noetl"

TOUR: list[tuple[str, list[str], int]] = [
    ("A playbook with mistakes gets all of them at once, each with a way out", ["check", "examples/broken.yaml"], 1),
    ("A good one is silent but for its verdict", ["check", "examples/orders.yaml"], 0),
    ("The net behind it", ["graph", "-o", "text", "examples/orders.yaml"], 0),
    ("What is proven about it, before anything runs", ["analyze", "examples/orders.yaml"], 0),
    ("And a run, on a SQLite file, with every event kept", ["run", "examples/flaky.yaml"], 0),
]


def main() -> int:
    failed = 0
    for title, arguments, expected in TOUR:
        print(f"\n── {title}\n$ noetl {' '.join(arguments)}", flush=True)
        status = subprocess.run([NOETL, *arguments], cwd=ROOT, env=os.environ).returncode
        if status != expected:
            print(f"demo: expected exit status {expected}, got {status}", file=sys.stderr)
            failed = 1
    print(
        "\nLook next at examples/, docs/concepts.md and docs/dsl/overview.md; `.venv/bin/noetl --help` lists the verbs."
    )
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
