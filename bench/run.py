"""`make bench`: measures, prints a table, keeps the figures in bench/results/. It is no test: nothing fails here."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.language import language  # noqa: E402

GROUPS: dict[str, Callable[[int], list[dict[str, Any]]]] = {"language": language}


def machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "commit": commit,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'group':10} {'what':52} {'measured':>12} {'goal':>12}  met"]
    for row in rows:
        goal = f"{row['goal']:g} {row['unit']}" if row.get("goal") else "-"
        met = (
            ""
            if not row.get("goal")
            else "yes"
            if row["value"] <= row["goal"]
            else f"no, {row['value'] / row['goal']:.1f}x"
        )
        lines.append(f"{row['group']:10} {row['what']:52} {row['value']:>9.3f} {row['unit']:2} {goal:>12}  {met}")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="fewer repetitions")
    options.add_argument("--group", choices=sorted(GROUPS), action="append")
    chosen = options.parse_args()
    rows = [row for name in chosen.group or GROUPS for row in GROUPS[name](3 if chosen.quick else 9)]
    print(table(rows))
    results = ROOT / "bench" / "results"
    results.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (results / f"{stamp}.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
