"""The tables of accepted spellings in docs/conventions.md and docs/migration.md, made from the table the readers use.

Both pages are written by hand around a pair of comments; what stands between them is rewritten by `make docs`.
"""

from __future__ import annotations

import re
from pathlib import Path

from noetl.language.migrating.repairs.table import REPAIRS
from noetl.language.reading.spellings.model import Spelling
from noetl.language.reading.spellings.table import SPELLINGS

ROOT = Path(__file__).parent.parent


def spelling_pages() -> dict[str, str]:
    """Both pages with current tables."""
    accepted = [row for row in SPELLINGS if row.before]
    tables = {"docs/conventions.md": _accepted_table(accepted), "docs/migration.md": _migration_table(SPELLINGS)}
    pages = {name: _filled((ROOT / name).read_text(), table, "spellings") for name, table in tables.items()}
    repairs = _filled(pages["docs/migration.md"], _migration_table(REPAIRS), "repairs")
    return {**pages, "docs/migration.md": repairs}


def _filled(page: str, table: str, what: str) -> str:
    begin, end = f"<!-- {what}: written by `make docs` -->", f"<!-- end of {what} -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    assert pattern.search(page), f"the page has no place for the table: {begin}"
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{end}", page)


def _accepted_table(rows: list[Spelling]) -> str:
    lines = ["| where | accepted | v10 writes | dialects |", "|---|---|---|---|"]
    for row in rows:
        dialects = ", ".join(row.dialects) + ("; `noetl.io/v10` refuses it" if row.refused_by_v10 else "")
        lines.append(f"| {row.where} | {_cell(row.older)} | {_cell(row.canonical)} | {dialects} |")
    return "\n".join(lines)


def _migration_table(rows: tuple[Spelling, ...]) -> str:
    lines = ["| where | older | v10 |", "|---|---|---|"]
    cells = dict.fromkeys((row.where, _cell(row.older), _cell(row.canonical)) for row in rows)
    lines += [f"| {where} | {older} | {canonical} |" for where, older, canonical in cells]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
