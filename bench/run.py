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

from bench import cluster, nets, pages, promises, restart, tools  # noqa: E402
from bench.embedded import embedded  # noqa: E402
from bench.language import language  # noqa: E402
from bench.peers.comparison import compared  # noqa: E402

GROUPS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "language": language,
    "embedded": embedded,
    "cluster": cluster.measured,
    "promises": promises.measured,
    "peers": compared,
    "restart": restart.measured,
    "tools": tools.measured,
    "nets": nets.measured,
    "pages": pages.measured,
}
_USUAL = ("language", "embedded")


def machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "load": load(),
        "commit": commit,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def load() -> list[float]:
    """The load of other processes: it changes absolute figures, and processor time far less."""
    return [round(one, 2) for one in os.getloadavg()]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'group':10} {'what':64} {'measured':>18} {'goal':>16}  met"]
    for row in rows:
        bound = ">=" if row.get("higher_is_better") else "<="
        goal = f"{bound} {row['goal']:g} {row['unit']}" if row.get("goal") else "-"
        lines.append(f"{row['group']:10} {row['what']:64} {row['value']:>10.3f} {row['unit']:7} {goal:>16}  {met(row)}")
    return "\n".join(lines)


def met(row: dict[str, Any]) -> str:
    if not row.get("goal"):
        return ""
    ratio = row["goal"] / row["value"] if row.get("higher_is_better") else row["value"] / row["goal"]
    return "yes" if ratio <= 1 else f"no, {ratio:.2f}x"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="fewer repetitions")
    options.add_argument("--group", choices=sorted(GROUPS), action="append")
    options.add_argument("--cluster", action="store_true", help="with PostgreSQL, NATS, a server and a worker as well")
    options.add_argument("--peers", action="store_true", help="ours, Restate and DBOS in turn (installs them)")
    chosen = options.parse_args()
    more = [*(("cluster", "promises", "restart") if chosen.cluster else ()), *(("peers",) if chosen.peers else ())]
    names = chosen.group or [*_USUAL, *more]
    before = load()
    results = ROOT / "bench" / "results"
    results.mkdir(exist_ok=True)
    kept = results / f"{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}.json"
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += GROUPS[name](3 if chosen.quick else 9)
        # After each group: a failure of the last one must not lose what the others measured for a quarter of an hour.
        kept.write_text(json.dumps({"machine": {**machine(), "load_before": before}, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    print(f"load of the machine: {before[0]:g} before, {load()[0]:g} after, on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
