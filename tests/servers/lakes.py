"""An interpreter with the lake extensions of DuckDB, and the libraries that write such tables, in an environment of
its own: they are large, and fit one version of DuckDB."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.servers.environments import python_environment

_EXTENSIONS = ("ducklake", "iceberg", "avro", "delta", "postgres-scanner", "sqlite-scanner", "httpfs")
_PACKAGES = (
    *("duckdb==1.5.5", *(f"duckdb-extension-{name}==1.5.5" for name in _EXTENSIONS)),
    *("msgspec", "jinja2", "pyarrow==26.0.1", "pyiceberg[sql-sqlite]==0.12.0", "deltalake==1.6.6"),
)


_TABLES = """
import sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
rows = pa.table({
    "id": pa.array(range(10), pa.int64()),
    "name": [f"n{i}" for i in range(10)],
    "total": [i / 2 for i in range(10)],
})
catalog = SqlCatalog("shop", uri=f"sqlite:///{folder}/catalog.sqlite", warehouse=f"file://{folder}/iceberg")
catalog.create_namespace("shop")
table = catalog.create_table("shop.orders", schema=rows.schema)
table.append(rows)
table.append(rows.slice(0, 3))
table.delete("id = 4")
write_deltalake(f"{folder}/delta", rows)
write_deltalake(f"{folder}/delta", rows.slice(0, 3), mode="append")
DeltaTable(f"{folder}/delta").delete("id = 4")
"""


def lakes_python() -> str:
    return str(python_environment("lakes", *_PACKAGES) / "python")


@cache
def written_tables() -> Path:
    """A folder with a table `shop.orders` of Iceberg, its catalogue `catalog.sqlite`, and a table `delta`: ten rows,
    then three of them again, then the row with id 4 gone. Nobody changes it: tests that do take a copy."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-lakes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([lakes_python(), "-c", _TABLES, str(folder)], check=True, capture_output=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def lake_interpreters() -> Iterator[None]:
    """The setting that names it for every kind of lake."""
    with pytest.MonkeyPatch.context() as patch:
        python = lakes_python()
        patch.setenv("NOETL_INTERPRETERS", ",".join(f"{kind}={python}" for kind in ("ducklake", "iceberg", "delta")))
        yield
