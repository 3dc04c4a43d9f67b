"""A sheet of Excel, written row by row. Numbers that Excel would round, and times with a zone, are text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.utils import get_column_letter

from noetl.base.errors import ToolError
from noetl.tools.convert.problems import DATA
from noetl.tools.convert.request import TableFile

_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14
_LONGEST = 32_767  # signs of a cell
_EXACT = 10**15  # what Excel keeps of a whole number
_SHEET_SIGNS = frozenset("[]:*?/\\")


def write_sheet(path: Path, file: TableFile, names: list[str], rows: Iterable[tuple[Any, ...]]) -> int:
    """The number of rows written. ToolError names the cell that Excel cannot hold."""
    title = str(file.sheet or "Sheet1")
    if len(title) > 31 or _SHEET_SIGNS & set(title):
        raise ToolError(
            "convert.input", f'sheet "{title}" is no name of a sheet: at most 31 signs, none of [ ] : * ? / \\'
        )
    if len(names) > _MOST_COLUMNS:
        raise ToolError(DATA, f"{file.name} would have {len(names)} columns; a sheet has at most {_MOST_COLUMNS}")
    book = Workbook(write_only=True)
    sheet = book.create_sheet(title)
    first = 1
    if file.header and names:
        sheet.append([_cell(sheet, name, 1, at, file) for at, name in enumerate(names, 1)])
        first = 2
    count = 0
    for number, row in enumerate(rows, first):
        if number > _MOST_ROWS:
            raise ToolError(
                DATA, f"{file.name} would have more than {_MOST_ROWS} rows, the most of a sheet: write csv or parquet"
            )
        sheet.append([_cell(sheet, value, number, at, file) for at, value in enumerate(row, 1)])
        count += 1
    book.save(path)
    return count


def _cell(sheet: Any, value: Any, row: int, column: int, file: TableFile) -> Any:
    match value:
        case None | bool():
            return value
        case int() if abs(value) >= _EXACT:
            value = str(value)
        case float() if not math.isfinite(value):
            value = str(value)
        case datetime() if value.year < 1900:
            value = value.isoformat()
    if not isinstance(value, str):
        return value
    where = f"{file.name}, cell {get_column_letter(column)}{row}"
    if len(value) > _LONGEST:
        raise ToolError(DATA, f"{where}: the text has {len(value)} signs; a cell holds {_LONGEST}", row=row)
    if ILLEGAL_CHARACTERS_RE.search(value):
        raise ToolError(DATA, f"{where}: the text has a control character, which a cell cannot hold", row=row)
    cell = WriteOnlyCell(sheet, value)
    cell.data_type = "s"  # also where it begins with "=": it is text, no formula
    return cell
