"""`make docs`: rewrites the generated pages. `--check` only says which are stale (a test does that)."""

from __future__ import annotations

import sys
from pathlib import Path

from noetl.events.events import TAXONOMY
from noetl.templates.scope import table
from tools.checks_page import checks_page
from tools.cli_page import cli_page
from tools.keys_page import keys_page
from tools.patterns_page import patterns_page
from tools.routes_page import route_pages
from tools.settings_page import settings_page
from tools.spellings_page import spelling_pages
from tools.tool_pages import tool_pages

ROOT = Path(__file__).parent.parent

EVENTS_HEAD = """# Events

Every change of an execution's state is an event in an append-only log. The state can be computed from the log alone.

| field | it is |
|---|---|
| `seq` | The position of the event in the log of its execution. It counts without gaps and is the only order. |
| `event_id` | The id of the event: its execution and its position, for most events. |
| `parent_id` | The event that caused this one. |
| `trace_id` | The same for all events that one request caused. |
| `on_behalf` | The server wrote the event in place of a worker: the step has no tools, or `noop` tasks only. |

```console
$ noetl run -o jsonl examples/hello.yaml | head -n 1
{"event_id":"…","execution_id":"…","seq":1,"event_type":"playbook.execution_requested","name":"playbook.execution_requested",…}
```

This table is generated from the classes of events in `noetl/events`. The last column names the event that began what
this event ends.

| event | written by | about | ends |
|---|---|---|---|
"""


def events_page() -> str:
    rows = []
    for name, kind in TAXONOMY.items():
        ends = " ".join(f"`{begun}`" for begun in kind.ends)
        rows.append(f"| `{name}` | {kind.owner.value} | {kind.entity} | {ends} |".replace("|  |", "| |"))
    return EVENTS_HEAD + "\n".join(rows) + "\n"


SCOPES_HEAD = """# Which names can be seen where

Generated from `noetl/templates/scope.py`, the table the checker itself uses. Besides these, a bare name is looked up
in this order: the iterator, results of tasks of the step, results of steps, `args`, `ctx`, `workload`. If none of them
has the name `loop`, it is the iteration, or in the arcs of a looped step the results and counts of the whole loop
([results by name](../conventions.md#results-by-name)).

A *site* is a kind of place where a template may stand: *task input* are the inputs and `spec` of a task, *task policy*
its rules, *arc* the guards and args under `next`. The *dialect* is the form of the language that a file is written in:
`v10` is today's; `v2-eval` and `v2-case` are [older ones](../migration.md), whose files still run.

"""


def scopes_page() -> str:
    """One row a site; dialects that see the same names share a line."""
    lines = ["| site | dialect | names |", "|---|---|---|"]
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in table():
        grouped.setdefault((row.site.value, row.names), []).append(row.dialect)
    for (site, names), dialects in grouped.items():
        lines.append(
            f"| {site.replace('_', ' ')} | {', '.join(dialects)} | {' '.join(f'`{name}`' for name in names)} |"
        )
    return SCOPES_HEAD + "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Every generated page by its place."""
    return {
        "docs/dsl/keys.md": keys_page(),
        "docs/dsl/scopes.md": scopes_page(),
        "docs/runtime/events.md": events_page(),
        "docs/checks.md": checks_page(),
        "docs/cli.md": cli_page(),
        "docs/settings.md": settings_page(),
        "docs/patterns.md": patterns_page(),
        **spelling_pages(),
        **route_pages(),
        **{f"docs/tools/{name}": text for name, text in tool_pages().items()},
    }


def main() -> int:
    stale = []
    for name, text in pages().items():
        path = ROOT / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale:
        print(("stale: " if "--check" in sys.argv else "rewritten: ") + ", ".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
