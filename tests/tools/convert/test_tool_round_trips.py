"""`convert`: every format into every other and back, with nulls, limits, decimals, times, texts and nested values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import pytest_asyncio

from noetl.tools.convert.tool import ConvertTool
from tests.tools.sql_tasks import outcome_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for all of them
FILES = {
    "csv": "t.csv",
    "json": "t.json",
    "jsonl": "t.jsonl",
    "parquet": "t.parquet",
    "excel": "t.xlsx",
    "xml": "t.xml",
}
TYPES = {
    "id": "BIGINT",
    "flag": "BOOLEAN",
    "big": "BIGINT",
    "price": "DECIMAL(10,2)",
    "wide": "DECIMAL(38,9)",
    "num": "DOUBLE",
    "day": "DATE",
    "local": "TIMESTAMP",
    "zoned": "TIMESTAMPTZ",
    "name": "VARCHAR",
    "code": "VARCHAR",
}
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "big": 9223372036854775807,
        "price": 1.1,
        "wide": "12345678901234567890.123456789",
        "num": 0.1,
        "day": "2024-02-29",
        "local": "2024-01-01T10:00:00.500000",
        "zoned": "2024-01-01T08:00:00.123456Z",
        "name": 'grün 🍏 "a",b;c\td\n<e>&=1+1',
        "code": "007",
    },
    {
        "id": 2,
        "flag": False,
        "big": -9223372036854775808,
        "price": -99999999.99,
        "wide": 1e-09,
        "num": 1e300,
        "day": "1999-12-31",
        "local": "1999-12-31T23:59:59",
        "zoned": "1970-01-01T00:00:00Z",
        "name": "=HYPERLINK(1)",
        "code": "1e5",
    },
    dict.fromkeys(TYPES) | {"id": 3},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[ConvertTool]:
    tool = ConvertTool()
    yield tool
    await tool.close()


async def done(tool: ConvertTool, folder: Path, source: Any, target: Any = None, /, **inputs: Any) -> Any:
    given = {"source": source, **({} if target is None else {"target": target}), **inputs}
    outcome = await outcome_of(tool, given, data_folders=(str(folder),))
    assert outcome.error is None, outcome.error
    return outcome.result


def types_of(result: Any) -> dict[str, str]:
    return {column["name"]: column["type"] for column in result["columns"]}


@pytest.mark.parametrize("first", FILES)
async def test_every_value_survives_every_pair_of_formats(tool: ConvertTool, tmp_path: Path, first: str) -> None:
    await done(tool, tmp_path, ROWS, f"first-{FILES[first]}", columns=TYPES)

    for second in FILES:
        between = f"{first}-{FILES[second]}"
        written = await done(tool, tmp_path, f"first-{FILES[first]}", between, columns=TYPES)
        back = await done(tool, tmp_path, between, columns=TYPES)

        assert written["row_count"] == 3, (first, second)
        assert written["size"] == (tmp_path / between).stat().st_size
        assert back["rows"] == ROWS, (first, second)


@pytest.mark.parametrize(
    ("form", "others"),
    [
        ("csv", {}),
        ("xml", {}),
        ("parquet", {"price": "DECIMAL(10,2)", "wide": "DECIMAL(38,9)"}),
        ("json", {"price": "DOUBLE", "wide": "VARCHAR"}),
        ("excel", {"big": "VARCHAR", "price": "DOUBLE", "wide": "VARCHAR", "zoned": "VARCHAR"}),
    ],
)
async def test_types_are_detected(tool: ConvertTool, tmp_path: Path, form: str, others: dict[str, str]) -> None:
    """docs/tools/convert.md says what each format keeps."""
    await done(tool, tmp_path, ROWS, FILES[form], columns=TYPES)

    back = await done(tool, tmp_path, FILES[form])

    found = {"zoned": "TIMESTAMP WITH TIME ZONE", "price": "DECIMAL(10,2)", "wide": "DECIMAL(29,9)", "num": "DOUBLE"}
    assert types_of(back) == TYPES | found | others


async def test_empty_text_differs_from_null_except_in_excel(tool: ConvertTool, tmp_path: Path) -> None:
    rows = [{"id": 1, "a": "", "b": None}, {"id": 2, "a": "x", "b": "y"}]

    for form, name in FILES.items():
        await done(tool, tmp_path, rows, name)
        back = await done(tool, tmp_path, name)
        assert back["rows"][0] == {"id": 1, "a": None if form == "excel" else "", "b": None}, form


async def test_nested_values_are_preserved_if_the_format_supports_them(tool: ConvertTool, tmp_path: Path) -> None:
    rows = [{"id": 1, "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 3}], "to": {"city": "Bern"}}, {"id": 2}]

    for name in ("n.json", "n.jsonl", "n.parquet"):
        await done(tool, tmp_path, rows, name)
        back = await done(tool, tmp_path, name)
        assert back["rows"] == [rows[0], {"id": 2, "lines": None, "to": None}], name
    await done(tool, tmp_path, "n.parquet", "n.csv")
    await done(tool, tmp_path, "n.parquet", "n.xml")
    csv, xml = await done(tool, tmp_path, "n.csv"), await done(tool, tmp_path, "n.xml")

    assert csv["rows"][0]["lines"] == '[{"sku":"a","n":2},{"sku":"b","n":3}]'
    assert xml["rows"][0]["lines"] == [{"sku": "a", "n": "2"}, {"sku": "b", "n": "3"}]


async def test_a_column_has_a_type_if_all_its_values_match(tool: ConvertTool, tmp_path: Path) -> None:
    written = [
        (["1", "-9223372036854775808"], "BIGINT"),
        (["1", "9223372036854775808"], "DECIMAL(19,0)"),
        (["007", "1"], "VARCHAR"),
        (["1", "x"], "VARCHAR"),
        (["1.50", "10"], "DECIMAL(4,2)"),
        (["1e3", "2"], "DOUBLE"),
        (["123456789012345678901234567890123456789012", "1"], "VARCHAR"),
        (["1234567890123456789012345678901234567.1", "0.000000001"], "VARCHAR"),
        (["true", "FALSE"], "BOOLEAN"),
        (["yes", "no"], "VARCHAR"),
        (["2024-02-30", "2024-01-01"], "VARCHAR"),
        (["2024-02-29", "2024-01-01"], "DATE"),
        (["2024-02-29 10:00", "2024-01-01T10:00:00.5"], "TIMESTAMP"),
        (["2024-02-29T10:00:00+02:00", "2024-01-01T10:00:00Z"], "TIMESTAMP WITH TIME ZONE"),
        (["31.12.2024", "01.01.2025"], "VARCHAR"),
        (["NaN", "1.5"], "VARCHAR"),
        (["", ""], "VARCHAR"),
    ]
    lines = [[f"c{at}" for at in range(len(written))], *zip(*(values for values, _ in written), strict=True)]
    (tmp_path / "t.csv").write_text("".join(f"{','.join(line)}\n" for line in lines))

    found = types_of(await done(tool, tmp_path, "t.csv"))

    assert found == {f"c{at}": kind for at, (_, kind) in enumerate(written)}


async def test_an_unexpected_value_changes_the_type_and_loses_nothing(tool: ConvertTool, tmp_path: Path) -> None:
    lines = [f"{number},{number},,2024-01-01" for number in range(25_000)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,late,day", *lines, "1.25,0x7,8,never"]) + "\n")

    result = await done(tool, tmp_path, "t.csv", "t.parquet")
    back = await done(tool, tmp_path, "t.parquet", "tail.jsonl", columns=["late", "b"])

    assert types_of(result) == {"a": "DECIMAL(7,2)", "b": "VARCHAR", "late": "BIGINT", "day": "VARCHAR"}
    assert back["row_count"] == 25_001
    assert (tmp_path / "tail.jsonl").read_text().splitlines()[-1] == '{"late":8,"b":"0x7"}'


async def test_columns_are_selected_renamed_and_typed(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Order No.;total;note\n0012;1,5;x\n")

    columns = {"order_no": {"from": "Order No.", "type": "BIGINT"}, "note": None}
    named = await done(tool, tmp_path, "t.csv", "t.xml", columns=columns)
    back = await done(tool, tmp_path, "t.xml")

    assert types_of(named) == {"order_no": "BIGINT", "note": "VARCHAR"}
    assert back["rows"] == [{"order_no": 12, "note": "x"}]


async def test_text_files_are_compressed_by_their_suffix(tool: ConvertTool, tmp_path: Path) -> None:
    for name, start in {"t.csv.gz": b"\x1f\x8b", "t.json.bz2": b"BZ", "t.xml.xz": b"\xfd7"}.items():
        await done(tool, tmp_path, ROWS, name, columns=TYPES)

        assert (await done(tool, tmp_path, name, columns=TYPES))["rows"] == ROWS
        assert (tmp_path / name).read_bytes()[:2] == start


async def test_foreign_csv_variants_are_read_and_written(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("Bericht\r\nname;größe\r\nÄpfel;3\r\n-;4\r\n".encode("cp1252"))

    source = {"url": "t.csv", "encoding": "cp1252", "skip": 1, "null": "-"}
    target = {"url": "out.tsv", "encoding": "utf-16", "header": False}
    read = await done(tool, tmp_path, source)
    await done(tool, tmp_path, source, target)

    assert read["rows"] == [{"name": "Äpfel", "größe": 3}, {"name": None, "größe": 4}]
    assert (tmp_path / "out.tsv").read_text(encoding="utf-16") == "Äpfel\t3\n\t4\n"


async def test_header_names_of_the_task_are_used(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,a\n2,b\n")

    named = await done(tool, tmp_path, {"url": "t.csv", "header": ["id", "name"]})
    unnamed = await done(tool, tmp_path, {"url": "t.csv", "header": False})

    assert named["rows"] == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert unnamed["rows"][1] == {"column0": 2, "column1": "b"}


async def test_records_are_selected_by_path(tool: ConvertTool, tmp_path: Path) -> None:
    order = '<order id="7"><s xmlns="urn:x">a</s><i>1</i><i>2</i></order>'
    (tmp_path / "t.xml").write_text(f"<f><meta><v>1</v></meta><orders>{order}<order/></orders></f>")
    (tmp_path / "t.json").write_text('{"meta": 1, "data": {"items": [{"a": 1}, {"a": 2}]}}')

    orders = await done(tool, tmp_path, {"url": "t.xml", "record": "orders/order"})
    items = await done(tool, tmp_path, {"url": "t.json", "record": "data.items"})

    assert orders["rows"] == [{"@id": 7, "s": "a", "i": ["1", "2"]}, {"@id": None, "s": None, "i": None}]
    assert items["rows"] == [{"a": 1}, {"a": 2}]


async def test_an_xml_element_that_repeats_once_is_a_list_everywhere(tool: ConvertTool) -> None:
    text = "<r><o><i>1</i></o><o><i>2</i><i>3</i></o><o><k>4</k></o></r>"

    read = await done(tool, Path(), {"text": text, "format": "xml", "lists": ["k"]})

    assert [row["i"] for row in read["rows"]] == [["1"], ["2", "3"], None]
    assert read["rows"][2]["k"] == ["4"]


async def test_a_sheet_of_one_column_may_have_many_empty_rows(tool: ConvertTool, tmp_path: Path) -> None:
    """A note far below a table is common, and for a reader of JSON most lines are empty records then."""
    from openpyxl import Workbook

    book = Workbook()
    for number, value in ((1, "id"), (2, 1), (2_000, 9)):
        book.worksheets[0].cell(row=number, column=1, value=value)
    book.save(tmp_path / "t.xlsx")

    read = await done(tool, tmp_path, "t.xlsx")

    assert read["columns"] == [{"name": "id", "type": "BIGINT"}]
    assert [row["id"] for row in read["rows"] if row["id"] is not None] == [1, 9]
    assert read["row_count"] == 1_999


async def test_sheets_are_selected_and_trailing_empty_rows_dropped(tool: ConvertTool, tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.create_sheet("second")
    for row in (["Report"], ["id", "Id", None], [1, 2, 3], [], [4, 5, 6], [None], [None]):
        book["second"].append(row)
    book.save(tmp_path / "t.xlsx")

    for sheet in ("second", 2):
        read = await done(tool, tmp_path, {"url": "t.xlsx", "sheet": sheet, "skip": 1})
        assert read["rows"][0] == {"id": 1, "Id_1": 2, "column2": 3}
        assert [row["id"] for row in read["rows"]] == [1, None, 4]
    assert (await done(tool, tmp_path, "t.xlsx"))["rows"] == []


@pytest.mark.parametrize(
    ("form", "text"),
    [("csv", "a,b\n1,x\n"), ("json", '[\n\t{"a":1,"b":"x"}\n]\n'), ("jsonl", '{"a":1,"b":"x"}\n')],
)
async def test_texts_are_accepted_and_returned(tool: ConvertTool, form: str, text: str) -> None:
    written = await done(tool, Path(), [{"a": 1, "b": "x"}], {"format": form})
    read = await done(tool, Path(), {"text": text, "format": form})

    assert written["text"] == text
    assert read["rows"] == [{"a": 1, "b": "x"}]


async def test_empty_input_gives_an_empty_table(tool: ConvertTool, tmp_path: Path) -> None:
    for form, name in FILES.items():
        if form != "parquet":
            await done(tool, tmp_path, [], name)
            assert (await done(tool, tmp_path, name))["rows"] == [], form
    typed = await done(tool, tmp_path, [], "t.parquet", columns={"id": "BIGINT"})
    (tmp_path / "head.csv").write_text("a,b\n")

    assert types_of(typed) == {"id": "BIGINT"}
    assert types_of(await done(tool, tmp_path, "head.csv")) == {"a": "VARCHAR", "b": "VARCHAR"}


async def test_a_column_of_nulls_keeps_its_rows(tool: ConvertTool, tmp_path: Path) -> None:
    for name in FILES.values():
        await done(tool, tmp_path, [{"a": None}, {"a": "x"}, {"a": None}, {"a": "y"}], name)
        assert [row["a"] for row in (await done(tool, tmp_path, name))["rows"]] == [None, "x", None, "y"], name


async def test_a_file_name_is_not_a_pattern(tool: ConvertTool, tmp_path: Path) -> None:
    (tmp_path / "a*[1]?.csv").write_text("v\n1\n")
    (tmp_path / "abc1x.csv").write_text("v\n2\n")

    assert (await done(tool, tmp_path, "a*[1]?.csv"))["rows"] == [{"v": 1}]


async def test_a_hundred_thousand_rows_are_converted_in_order_and_little_memory(
    tool: ConvertTool, tmp_path: Path
) -> None:
    connection = duckdb.connect()
    connection.execute(
        f"COPY (SELECT i AS id, 'name ' || i AS name, i / 7 AS n FROM range(100000) t(i)) TO '{tmp_path}/t.parquet'"
    )
    connection.close()
    given = {"source": "t.parquet", "target": "t.csv"}

    outcome = await outcome_of(tool, given, {"resources": {"memory": "64Mi"}}, data_folders=(str(tmp_path),))
    back = await outcome_of(
        tool,
        {"source": "t.csv", "target": "u.parquet"},
        {"resources": {"memory": "256Mi"}},
        data_folders=(str(tmp_path),),
    )

    assert outcome.error is None
    assert back.error is None
    ids = [row[0] for row in duckdb.sql(f"SELECT id FROM '{tmp_path}/u.parquet'").fetchall()]
    assert ids == list(range(100_000))
