"""`convert`: hostile and broken files, places that are not open, tasks that are cancelled; and what is left of them."""

from __future__ import annotations

import asyncio
import gzip
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from noetl.events.outcomes import Error
from noetl.tools.convert.tool import ConvertTool
from noetl.tools.storage.tool import StorageTool
from tests.process_liveness import gone
from tests.servers.object_stores import s3_bucket
from tests.tools.sql_tasks import context, outcome_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for most of them
LAUGHS = '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><r><o>&b;</o></r>'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[ConvertTool]:
    tool = ConvertTool()
    yield tool
    await tool.close()


async def error_of(tool: ConvertTool, folder: Path, /, spec: dict[str, Any] | None = None, **inputs: Any) -> Error:
    outcome = await outcome_of(tool, inputs, spec, data_folders=(str(folder),))
    assert outcome.error is not None, outcome.result
    assert str(folder) not in outcome.error.message
    return outcome.error


async def test_leftovers_of_a_killed_worker_are_deleted_by_the_next_task(tool: ConvertTool, tmp_path: Path) -> None:
    """Only what nobody writes to any more: another attempt may be at work beside it."""
    left, fresh, other = (tmp_path / name for name in (".t.csv.0a.part", ".t.csv.0b.part", ".u.csv.0a.part"))
    for one in (left, fresh, other):
        one.write_text("half of it")
    for one in (left, other):
        os.utime(one, (0, 0))

    done = await outcome_of(tool, {"source": [{"a": 1}], "target": "t.csv"}, data_folders=(str(tmp_path),))

    assert done.error is None, done.error
    assert sorted(os.listdir(tmp_path)) == [".t.csv.0b.part", ".u.csv.0a.part", "t.csv"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "a,b\n1,2\n3,4,5\n", "line 3"),
        ("t.csv", 'a,b\n1,"2\n', "t.csv"),
        ("t.csv", b"a,b\n1,\xff\xfe\n", "t.csv"),
        ("t.json", '[{"a": 1}, {"a": ]', "t.json"),
        ("t.json", "[" * 200_000, "100 levels"),
        ("t.json", '{"a":' * 200_000 + "1" + "}" * 200_000, "100 levels"),
        ("t.jsonl", '{"a": 1}\n{"a"\n', "t.jsonl"),
        ("t.xml", "<r><o><a>1</a>", "line 1"),
        ("t.xml", "<r>\n<o></b></r>", "line 2, column"),
        ("t.xml", LAUGHS, "<!DOCTYPE"),
        ("t.xml", '<!DOCTYPE r SYSTEM "file:///etc/passwd"><r><o>&x;</o></r>', "<!DOCTYPE"),
        ("t.xml", "<a>" * 5_000 + "</a>" * 5_000, "100 levels"),
        ("t.xml", f"<r><o><a>{'x' * (9 << 20)}</a></o></r>", "record"),
        ("t.parquet", "PAR1 not at all PAR1", "t.parquet"),
        ("t.xlsx", "not a zip", ".xls of old Excel"),
        ("t.csv.gz", b"\x1f\x8b\x08 cut", "gzip"),
    ],
)
async def test_unreadable_input_is_reported_with_its_place(
    tool: ConvertTool, tmp_path: Path, name: str, text: str | bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    error = await error_of(tool, tmp_path, source=name, target="out.parquet")

    assert error.kind == "convert.data"
    assert words in error.message
    assert not error.retryable
    assert os.listdir(tmp_path) == [name]


async def test_brackets_in_text_are_not_nesting_levels(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"a": "{"[" * 3_000_000}\\"[[\\\\"}}\n')

    outcome = await outcome_of(tool, {"source": "t.jsonl", "target": "t.csv"}, data_folders=(str(tmp_path),))

    assert outcome.error is None


async def test_a_value_of_another_type_is_named(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,total\n1,2\n2,two\n")

    for target in ("out.parquet", "out.xlsx", None):
        error = await error_of(
            tool, tmp_path, source="t.csv", columns={"id": "BIGINT", "total": "BIGINT"}, target=target
        )
        assert error.kind == "convert.data"
        assert error.message == 't.csv, row 2, column "total": "two" is not of type BIGINT'
    assert os.listdir(tmp_path) == ["t.csv"]


async def test_decompression_bombs_are_bounded(tool: ConvertTool, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        for _ in range(20):
            file.write(b"a\n" * (1 << 19))
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as book, book.open("xl/x.xml", "w") as part:
        for _ in range(260):
            part.write(bytes(1 << 20))

    zipped = await error_of(tool, tmp_path, {"max_bytes": 1 << 20}, source="t.csv.gz")
    book_error = await error_of(tool, tmp_path, source="t.xlsx")

    assert "raise spec.max_bytes" in zipped.message
    assert "too large" in book_error.message


async def test_a_sheet_that_skips_millions_of_rows_is_refused(tool: ConvertTool, tmp_path: Path) -> None:
    """The number of a row is written in the file, and rows that are missing before it are read as empty ones."""
    from openpyxl import Workbook

    book = Workbook()
    for number in range(3):
        book.worksheets[0].append([number])
    book.save(tmp_path / "good.xlsx")
    with zipfile.ZipFile(tmp_path / "good.xlsx") as good, zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as bad:
        for member in good.namelist():
            bad.writestr(member, good.read(member).replace(b'"3"', b'"3000000"').replace(b'"A3"', b'"A3000000"'))

    error = await error_of(tool, tmp_path, source="bad.xlsx")

    assert error.kind == "convert.data"
    assert error.message == "bad.xlsx, sheet Sheet: it has more than 1048576 rows, the most of a sheet"


async def test_entities_in_a_workbook_are_refused(tool: ConvertTool, tmp_path: Path) -> None:
    from openpyxl import Workbook

    Workbook().save(tmp_path / "good.xlsx")
    with zipfile.ZipFile(tmp_path / "good.xlsx") as good, zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as bad:
        for member in good.namelist():
            head = LAUGHS.partition("<r>")[0] if member.startswith("xl/worksheets/") else ""
            bad.writestr(member, head.encode() + good.read(member))

    error = await error_of(tool, tmp_path, source="bad.xlsx")

    assert error.kind in ("convert.data", "convert.error")
    assert "Entit" in error.message


@pytest.mark.parametrize(
    ("value", "words"), [("x" * 40_000, "cell B2: the text has 40000 signs"), ("bell \x07", "cell B2")]
)
async def test_a_value_that_a_cell_cannot_hold_is_named(
    tool: ConvertTool, tmp_path: Path, value: str, words: str
) -> None:
    error = await error_of(tool, tmp_path, source=[{"id": 1, "v": value}], target="t.xlsx")

    assert error.kind == "convert.data"
    assert words in error.message


async def test_an_error_in_a_cell_is_named_or_omitted(tool: ConvertTool, tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.worksheets[0].append(["a"])
    book.worksheets[0].append(["#N/A"])
    book.worksheets[0]["A2"].data_type = "e"
    book.save(tmp_path / "t.xlsx")

    error = await error_of(tool, tmp_path, source="t.xlsx")
    read = await outcome_of(
        tool, {"source": {"url": "t.xlsx", "cell_errors": "null"}, "columns": ["a"]}, data_folders=(str(tmp_path),)
    )

    assert "sheet Sheet, cell A2" in error.message
    assert read.error is None


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"source": "../outside.csv"}, "outside the folders"),
        ({"source": "/etc/passwd"}, "no format"),
        ({"source": {"url": "/etc/passwd", "format": "csv"}}, "outside the folders"),
        ({"source": {"url": "link.csv"}}, "outside the folders"),
        ({"source": [{"a": 1}], "target": "../out.csv"}, "outside the folders"),
        ({"source": [{"a": 1}], "target": "deep"}, "no format"),
        ({"source": [{"a": 1}], "target": {"url": "folder", "format": "csv"}}, "is a folder"),
        ({"source": "https://example.org/t.csv"}, 'URL of "https"'),
        ({"source": {}}, "none of them"),
        ({"source": {"text": "a", "rows": []}}, "rows and text"),
        ({"source": {"rows": [1]}}, "list of mappings"),
        ({"source": {"text": "a"}}, "format is missing"),
        ({"source": [], "target": {"format": "excel"}}, "no text"),
        ({"source": [], "target": {"url": "t.csv", "delimiter": ";;"}}, "delimiter"),
        ({"source": [], "target": {"url": "t.csv", "encoding": "rot13"}}, "encoding"),
        ({"source": [], "target": {"url": "t.parquet", "compression": "gzip"}}, "compressed by itself"),
        ({"source": [{"a": 1}], "columns": ["b"]}, 'has no column "b"; it has "a"'),
        ({"source": [{"a": 1}], "columns": {"a": "INT); DROP TABLE x"}}, "does not know"),
        ({"source": [{"a": 1}], "columns": ["a", "A"]}, "twice"),
    ],
)
async def test_invalid_inputs_are_refused(
    tool: ConvertTool, tmp_path: Path, inputs: dict[str, Any], words: str
) -> None:
    folder = tmp_path / "open"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside.csv").write_text("a\n1\n")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")

    outcome = await outcome_of(tool, inputs, data_folders=(str(folder),))

    assert outcome.error is not None
    assert outcome.error.kind == "convert.input"
    assert words in outcome.error.message
    assert sorted(os.listdir(folder)) == ["folder", "link.csv"]


async def test_without_data_folders_no_file_is_opened(tool: ConvertTool) -> None:
    outcome = await outcome_of(tool, {"source": "t.csv"})

    assert outcome.error is not None
    assert "no data folder is open" in outcome.error.message


async def test_a_missing_source_and_an_existing_target_are_reported(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("old\n")

    missing = await error_of(tool, tmp_path, source="nowhere.csv")
    there = await error_of(tool, tmp_path, source=[{"a": 1}], target="t.csv", if_absent=True)

    assert missing.kind == "convert.missing"
    assert there.kind == "convert.conflict"
    assert (tmp_path / "t.csv").read_text() == "old\n"
    assert os.listdir(tmp_path) == ["t.csv"]


async def test_a_result_is_limited_in_size(tool: ConvertTool, tmp_path: Path) -> None:
    error = await error_of(tool, tmp_path, {"max_rows": 1}, source=[{"a": 1}, {"a": 2}])

    assert error.kind == "result.too_large"


async def test_a_cancelled_task_leaves_no_process_and_no_partial_file(tmp_path: Path) -> None:
    tool = ConvertTool()
    source = tmp_path / "t.csv"
    source.write_text("a,b\n" + "1,2\n" * 2_000_000)
    (tmp_path / "t.xlsx").write_text("old")
    running = asyncio.ensure_future(
        tool.run({"source": "t.csv", "target": "t.xlsx"}, context(data_folders=(str(tmp_path),)))
    )
    while not (children := [child.pid for child in tool._children._busy]):
        await asyncio.sleep(0.01)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await tool.close()

    assert await gone(children[0])
    assert sorted(os.listdir(tmp_path)) == ["t.csv", "t.xlsx"]
    assert (tmp_path / "t.xlsx").read_text() == "old"


async def test_a_pipe_is_not_accepted_as_a_file(tool: ConvertTool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.csv")

    assert (await error_of(tool, tmp_path, source="p.csv")).kind == "convert.missing"


@pytest.mark.timeout(600)
async def test_objects_are_read_and_written_by_url(tool: ConvertTool, tmp_path: Path) -> None:
    bucket, storage = s3_bucket(), StorageTool()
    more: dict[str, Any] = {"tool": lambda kind: storage, "data_folders": (str(tmp_path),)}
    auth = bucket.auth

    put = await outcome_of(
        tool, {"source": [{"a": 1}], "target": {"url": f"{bucket.url}/c/t.parquet", "auth": auth}}, **more
    )
    got = await outcome_of(tool, {"source": f"{bucket.url}/c/t.parquet", "auth": auth}, **more)
    missing = await outcome_of(tool, {"source": f"{bucket.url}/c/no.csv", "target": "x.csv", "auth": auth}, **more)
    await storage.close()

    assert put.error is None
    assert got.error is None
    assert got.result["rows"] == [{"a": 1}]
    assert missing.error is not None
    assert missing.error.kind == "storage.missing"
    assert os.listdir(tmp_path) == []
