"""`make demo`: a tour of NoETL from an empty folder, each command as you would type it.

A short tour of what is known before a playbook runs, then a run against a small API on this machine: pages are read,
a busy API is waited for, and rows end up in a DuckDB file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.demo_api import DemoApi

ROOT = Path(__file__).parent.parent
NOETL = Path(sys.executable).parent / "noetl"
PAGES = "examples/pages_to_duckdb.yaml"
DATABASE = Path(".demo/orders.duckdb")
SLOW_S = 0.08  # of each answer: a run that is over at once shows nothing

TOUR: list[tuple[str, list[str], int]] = [
    ("A playbook with mistakes gets all of them at once, each with a way out", ["check", "examples/broken.yaml"], 1),
    ("A good one as a picture", ["graph", "-o", "text", PAGES], 0),
    ("What is proven about it before anything runs", ["analyze", PAGES], 0),
]

NEXT = """
Every change of that run is an event, kept on disk. Look next at

  .venv/bin/noetl events last             what happened, one line an event
  .venv/bin/noetl executions              what has been run; status, logs, result and ctx tell more of one
  examples/README.md                      this playbook and its neighbours: loops in loops, joins, polling, secrets, …
  docs/concepts.md, docs/dsl/overview.md  the language in a few pages; docs/tools/ has a page for each kind of task

And see tokens move:

  .venv/bin/noetl dev                     a server, a worker and the web UI on one port; it opens in your browser
"""


def main() -> int:
    print("A tour of NoETL: it checks, draws, proves and runs a playbook. It takes a minute or so.", flush=True)
    failed = [title for title, arguments, expected in TOUR if not _show_command(title, arguments, expected)]
    (ROOT / DATABASE).parent.mkdir(exist_ok=True)
    (ROOT / DATABASE).unlink(missing_ok=True)
    with DemoApi(delay_s=SLOW_S) as api:
        run = ["run", PAGES, "--set", f"api_url={api.url}", "--set", f"database={DATABASE}"]
        if not _show_command(
            "And a run: every page of nine shops' orders, from an API that is busy now and then", run, 0
        ):
            failed.append("run")
    if failed:
        print("demo: this did not end as it should: " + "; ".join(failed), file=sys.stderr)
        return 1
    _show_rows()
    _build_ui()
    print(NEXT, end="")
    return 0


def _show_command(title: str, arguments: Sequence[str], expected: int) -> bool:
    """Whether the command ended as expected. It has the terminal for itself, so that it looks as it would for you."""
    print(f"\n── {title}\n$ noetl {' '.join(arguments)}", flush=True)
    return subprocess.run([NOETL, *arguments], cwd=ROOT, env=os.environ).returncode == expected


def _build_ui() -> None:
    """For `noetl dev`, once. If it cannot be built, the page of the server explains it."""
    if not (ROOT / "src/noetl/_ui/index.html").exists():
        print("\n── The web UI is built, once", flush=True)
        subprocess.run(["sh", "tools/ui.sh"], cwd=ROOT, stdout=subprocess.DEVNULL)


def _show_rows() -> None:
    """A few of the rows, read without the playbook."""
    import duckdb

    query = "SELECT shop, count(*) AS orders, sum(total) AS total FROM orders GROUP BY shop ORDER BY shop"
    print(f"\n── The rows are there ({DATABASE})\n{query}")
    with duckdb.connect(str(ROOT / DATABASE), read_only=True) as database:
        found = database.execute(query)
        rows = [[column[0] for column in found.description or []], *found.fetchall()]
    for row in rows:
        print("  ".join(f"{value!s:<8}" for value in row).rstrip())


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
