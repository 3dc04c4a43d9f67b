"""Tables in the child: files in Parquet that the code is given, and what it returns as one (`spec.rows: parquet`)."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def opened(tables: dict[str, str], kind: str) -> dict[str, Any]:
    """The tables as the code wants them: paths, or tables of a library that is installed here."""
    if kind == "arrow":
        from pyarrow import parquet  # type: ignore[import-not-found, unused-ignore]

        return {name: parquet.read_table(path) for name, path in tables.items()}
    if kind == "pandas":
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return {name: pandas.read_parquet(path) for name, path in tables.items()}
    return dict(tables)


def write(value: Any, path: str) -> str:
    """Write what the code returned to a file: Parquet, or rows as lines of JSON. Returns which of them it is."""
    if hasattr(value, "write_parquet"):  # polars, and relations of DuckDB
        value.write_parquet(path)
    elif hasattr(value, "to_parquet"):  # pandas
        value.to_parquet(path, index=False)
    elif hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_batches"):
        write_arrow(value, path)
    elif isinstance(value, dict):
        raise TypeError("spec.rows: parquet needs a table or rows; the result is one mapping")
    else:
        with open(path, "w", encoding="utf-8") as file:
            for row in value:  # a generator gives them one by one, so that they are never all in memory
                file.write(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")
        return "json"
    return "parquet"


def write_arrow(value: Any, path: str) -> None:
    import pyarrow  # type: ignore[import-not-found, unused-ignore]
    from pyarrow import parquet

    reader = value if hasattr(value, "read_next_batch") else pyarrow.table(value).to_reader()
    with parquet.ParquetWriter(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
