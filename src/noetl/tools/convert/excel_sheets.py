"""Sheets of Excel: read row by row and staged as lines of JSON, with the types of their cells; or written row by
row."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import msgspec
from openpyxl import Workbook, load_workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.utils import get_column_letter
from openpyxl.utils.exceptions import InvalidFileException

from noetl.base.errors import ToolError
from noetl.tools.convert.tables import DATA, TableFile, distinct_names
from noetl.tools.sql.answers import plain

# A workbook is a zip: its expanded size is checked before it is read.
_EXPANDED_BYTES = 2 << 30
_TEXTS_BYTES = 256 << 20  # all texts of a workbook are in memory
_MIDNIGHT = time()
_INT64 = range(-(1 << 63), 1 << 63)
_TYPES: tuple[tuple[set[str], str], ...] = (
    ({"bool"}, "BOOLEAN"),
    ({"int"}, "BIGINT"),
    ({"int", "float"}, "DOUBLE"),
    ({"date"}, "DATE"),
    ({"date", "datetime"}, "TIMESTAMP"),
    ({"time"}, "TIME"),
)


def stage_sheet(file: TableFile, folder: Path) -> tuple[Path, list[tuple[str, str]]]:
    """Stage the rows of a sheet as lines of texts by the number of their column. Returns the columns with their
    types."""
    _check_size(file)
    try:
        book = load_workbook(file.path, read_only=True, data_only=True, keep_links=False)
    except ToolError:
        raise
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as problem:
        raise _unreadable(file, problem) from None
    try:
        return _stage_sheet(_sheet(book, file), file, folder)
    except (zipfile.BadZipFile, KeyError, SyntaxError, EOFError) as problem:  # invalid XML raises SyntaxError
        raise _unreadable(file, problem) from None
    finally:
        book.close()


def _check_size(file: TableFile) -> None:
    """A workbook is a zip file: its expanded size is checked before it is opened. A zip never expands to more than
    it declares."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
    except (zipfile.BadZipFile, OSError, NotImplementedError) as problem:
        raise _unreadable(file, problem) from None
    texts = sum(size for name, size in sizes.items() if not name.startswith("xl/worksheets/"))
    if sum(sizes.values()) > _EXPANDED_BYTES or texts > _TEXTS_BYTES:
        raise ToolError(
            DATA,
            f"{file.name} is too large: it expands to {sum(sizes.values())} bytes, {texts} outside of its sheets",
        )


def _unreadable(file: TableFile, problem: Exception) -> ToolError:
    cause = problem.__cause__ or problem.__context__
    reason = f"{type(cause or problem).__name__}: {problem}".replace(file.path, file.name)
    hint = "; an .xls of old Excel must be saved as .xlsx, one with a password without it"
    return ToolError(DATA, f"{file.name} is no workbook that can be read ({reason}){hint}")


def _sheet(book: Any, file: TableFile) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if isinstance(file.sheet, int):
        found = book.worksheets[file.sheet - 1] if 1 <= file.sheet <= len(names) else None
    elif file.sheet is None:
        found = book.worksheets[0] if names else None
    else:
        found = next((sheet for sheet in book.worksheets if sheet.title == file.sheet), None)
    if found is None:
        listed = ", ".join(f'"{name}"' for name in names)
        raise ToolError(DATA, f'{file.name} has no sheet "{file.sheet}"; it has {listed}')
    found.reset_dimensions()  # the numbers in a file may be wrong
    return found


def _stage_sheet(sheet: Any, file: TableFile, folder: Path) -> tuple[Path, list[tuple[str, str]]]:
    rows = _rows(sheet, file)
    names = file.header if isinstance(file.header, list) else _names(next(rows, [])) if file.header else []
    kinds: list[set[str]] = [set() for _ in names]
    made = folder / "sheet"
    with made.open("wb") as out:
        for row in rows:
            kinds += [set() for _ in range(len(row) - len(kinds))]
            cells = {}
            for at, (kind, text) in enumerate(row):
                if text is not None:
                    kinds[at].add(kind)
                    cells[str(at)] = text
            out.write(msgspec.json.encode(cells) + b"\n")
    names = distinct_names([*names, *(f"column{at}" for at in range(len(names), len(kinds)))])
    return made, [(name, _type(kind)) for name, kind in zip(names, kinds, strict=True)]


def _rows(sheet: Any, file: TableFile) -> Iterator[list[tuple[str, str | None]]]:
    """The rows as kinds and texts. Empty rows at the end are left out."""
    empty = 0
    for number, cells in enumerate(sheet.iter_rows(), 1):
        # The number of a row is in the file, and openpyxl makes all that are missing before it.
        if number > _MOST_ROWS:
            where = f"{file.name}, sheet {sheet.title}"
            raise ToolError(DATA, f"{where}: it has more than {_MOST_ROWS} rows, the most of a sheet")
        if number <= file.skip:
            continue
        row = [_cell(cell, number, at, sheet.title, file) for at, cell in enumerate(cells, 1)]
        while row and row[-1][1] is None:
            row.pop()
        if not row:
            empty += 1
            continue
        for _ in range(empty):
            yield []
        empty = 0
        yield row


def _cell(cell: Any, row: int, column: int, sheet: str, file: TableFile) -> tuple[str, str | None]:
    value = cell.value
    if value is None:
        return "", None
    if cell.data_type == "e":
        if file.cell_errors == "null":
            return "", None
        where = f"{file.name}, sheet {sheet}, cell {get_column_letter(column)}{row}"
        raise ToolError(
            DATA, f"{where}: its formula gives {value}; write cell_errors: null to read such cells as nothing", row=row
        )
    match value:
        case bool():
            return "bool", str(value).lower()
        case int():
            return "int" if value in _INT64 else "text", str(value)
        case float():
            return "float", repr(value)
        case datetime():
            is_day = value.time() == _MIDNIGHT and "h" not in str(cell.number_format).lower()
            return ("date", value.date().isoformat()) if is_day else ("datetime", value.isoformat())
        case date():
            return "date", value.isoformat()
        case time():
            return "time", value.isoformat()
        case timedelta():
            return "text", str(plain(value))
        case _:
            return "text", str(value)


def _names(row: list[tuple[str, str | None]]) -> list[str]:
    return [text if text is not None else f"column{at}" for at, (_, text) in enumerate(row)]


def _type(kinds: set[str]) -> str:
    return next((name for fitting, name in _TYPES if kinds and kinds <= fitting), "VARCHAR")


# Writing a sheet of Excel, row by row. Numbers that Excel would round, and times with a zone, become text.
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14
_LONGEST = 32_767  # characters of a cell
_EXACT = 10**15  # Excel's precision of a whole number
_SHEET_SIGNS = frozenset("[]:*?/\\")


def write_sheet(path: Path, file: TableFile, names: list[str], rows: Iterable[tuple[Any, ...]]) -> int:
    """Write the rows. Returns their number. Raises ToolError, which names the cell that Excel cannot hold."""
    title = str(file.sheet or "Sheet1")
    if len(title) > 31 or _SHEET_SIGNS & set(title):
        raise ToolError(
            "convert.input", f'sheet "{title}" is not a valid sheet name: at most 31 signs, none of [ ] : * ? / \\'
        )
    if len(names) > _MOST_COLUMNS:
        raise ToolError(DATA, f"{file.name} would have {len(names)} columns; a sheet has at most {_MOST_COLUMNS}")
    book = Workbook(write_only=True)
    sheet = book.create_sheet(title)
    first = 1
    if file.header and names:
        sheet.append([_written_cell(sheet, name, 1, at, file) for at, name in enumerate(names, 1)])
        first = 2
    count = 0
    for number, row in enumerate(rows, first):
        if number > _MOST_ROWS:
            raise ToolError(
                DATA, f"{file.name} would have more than {_MOST_ROWS} rows, the most of a sheet: write csv or parquet"
            )
        sheet.append([_written_cell(sheet, value, number, at, file) for at, value in enumerate(row, 1)])
        count += 1
    book.save(path)
    return count


def _written_cell(sheet: Any, value: Any, row: int, column: int, file: TableFile) -> Any:
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
    cell.data_type = "s"  # also if it begins with "=": it is text, not a formula
    return cell
