"""docs/patterns.md: all 43 workflow control-flow patterns, generated from the playbooks that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "examples" / "patterns"

HEAD = """# The 43 workflow patterns

Every control-flow pattern of the Workflow Patterns initiative (WCP-01 to WCP-43) as a playbook that runs, with what it
does. `noetl check` proves each of them sound; a broken twin of each, kept with the tests, is found out with a witness.

```sh
noetl run examples/patterns/wcp_03_synchronization.yaml
```

Read `→` as "then". Steps that stand beside each other in a fork may end in any order when several workers run them; the
order shown is that of one worker.

"""


def patterns_page() -> str:
    traces: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "traces.yaml").read_text("utf-8"))
    return HEAD + "\n".join(_section(name, trace) for name, trace in traces.items())


def _section(name: str, trace: dict[str, Any]) -> str:
    number, title, text = _header_of((FOLDER / f"{name}.yaml").read_text("utf-8"))
    lines = [
        f"## {number} {title}",
        "",
        text,
        "",
        f"[{name}.yaml](../examples/patterns/{name}.yaml): {_trace(trace)}",
        "",
    ]
    return "\n".join(lines)


def _header_of(source: str) -> tuple[str, str, str]:
    """The comment above the playbook: number, title, and what it is about."""
    comment = " ".join(line[2:] for line in source.splitlines() if line.startswith("# "))
    head, _, text = comment.partition(". ")
    number, _, title = head.partition(", ")
    return number, title.capitalize(), text


def _trace(trace: dict[str, Any]) -> str:
    parts = [" → ".join(f"`{step}`" for step in trace["steps"])]
    if "iterations" in trace:
        parts.append(f"{trace['iterations']} iterations")
    for sent in trace.get("send", []):
        kind = "message" if "message" in sent else "signal"
        early = " before anybody waits" if sent.get("early") else ""
        parts.append(f"somebody sends the {kind} `{sent[kind]}`{early}")
    if "status" in trace:
        parts.append(f"it ends `{trace['status']}`")
    return "; ".join(parts)
