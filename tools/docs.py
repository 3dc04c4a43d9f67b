"""`make docs`: rewrites the generated pages. `--check` only says which are stale (a test does that)."""

from __future__ import annotations

import sys
from pathlib import Path

from checks_page import checks_page

from noetl.templates.scopes import table

ROOT = Path(__file__).parent.parent

SCOPES_HEAD = """# Which names can be seen where

Generated from `noetl/templates/scopes.py`, the table the checker itself uses. Besides these, a bare name is looked up as
the iteration's binding, then task results of the step, step results, `args`, `ctx` and `workload`, in that order.

"""


def scopes_page() -> str:
    header, *rows = table()
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return SCOPES_HEAD + "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


PAGES = {"docs/dsl/scopes.md": scopes_page, "docs/checks.md": checks_page}


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale:
        print(("stale: " if "--check" in sys.argv else "rewritten: ") + ", ".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
