"""The tables of accepted spellings in docs/conventions.md and docs/migration.md, made from the table the readers use.

Both pages are written by hand around a pair of comments; the part between them is rewritten by `make docs`.
"""

from __future__ import annotations

import re
from pathlib import Path

from noetl.language.migrating.rescue import REPAIRS
from noetl.language.reading.spellings.model import Spelling, Where
from noetl.language.reading.spellings.respelling import SPELLINGS

ROOT = Path(__file__).parent.parent

# Constructs of the older dialects, for the page about migration: their own readers read them, so they are no spellings.
OLDER_CONSTRUCTS = (
    (Where.STEP, "`when` on a step", "`step.spec.policy.admit.rules`"),
    (Where.TASK, "`eval: [{expr, do}]`", "`task.spec.policy.rules: [{when, then: {do}}]`"),
    (Where.STEP, "`spec.next_mode`", "`next.spec.mode`"),
    (Where.TASK, "`- label: {kind: …}`", "`- name: label` with `kind` beside it"),
    (Where.ACTION, "`set_vars`", "`set_iter`, or `set_ctx` under a key of its own"),
    (Where.STEP, "`vars:` on a step", "`set_ctx` on the step"),
    (Where.STEP, "`retry:` on a step", "a rule with `do: retry`"),
    (Where.STEP, "`sink:`", "a task that stores"),
    (Where.STEP, "`case` on `call.done`, `call.error`", "arcs on `step.done`, `step.failed`"),
)


def spelling_pages() -> dict[str, str]:
    """Both pages with current tables."""
    older = [*_cells(SPELLINGS), *OLDER_CONSTRUCTS]
    tables = {"docs/conventions.md": _accepted_table(SPELLINGS), "docs/migration.md": _migration_table(older)}
    pages = {name: _page_with_table((ROOT / name).read_text(), table, "spellings") for name, table in tables.items()}
    repairs = _page_with_table(pages["docs/migration.md"], _migration_table(_cells(REPAIRS)), "repairs")
    return {**pages, "docs/migration.md": repairs}


def _page_with_table(page: str, table: str, what: str) -> str:
    begin, end = f"<!-- {what}: written by `make docs` -->", f"<!-- end of {what} -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    assert pattern.search(page), f"the page has no place for the table: {begin}"
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{end}", page)


def _accepted_table(rows: tuple[Spelling, ...]) -> str:
    lines = ["| where | accepted | v10 writes | dialects |", "|---|---|---|---|"]
    for row in rows:
        dialects = ", ".join(row.dialects) + ("; `noetl.io/v10` refuses it" if row.refused_by_v10 else "")
        lines.append(f"| {row.where} | {_cell(row.older)} | {_cell(row.canonical)} | {dialects} |")
    return "\n".join(lines)


def _cells(rows: tuple[Spelling, ...]) -> list[tuple[Where, str, str]]:
    return [(row.where, row.older, row.canonical) for row in rows]


def _migration_table(rows: list[tuple[Where, str, str]]) -> str:
    lines = ["| where | older | v10 |", "|---|---|---|"]
    cells = dict.fromkeys((where, _cell(older), _cell(canonical)) for where, older, canonical in rows)
    lines += [f"| {where} | {older} | {canonical} |" for where, older, canonical in cells]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
