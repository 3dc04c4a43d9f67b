"""An interpreter with the lake extensions of DuckDB, and the libraries that write such tables, in an environment of
its own: they are large, and fit one version of DuckDB."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.servers.environments import python_environment
from tests.servers.object_stores import Bucket, s3_bucket

_EXTENSIONS = ("ducklake", "iceberg", "avro", "delta", "postgres-scanner", "sqlite-scanner", "httpfs", "azure")
_PACKAGES = (
    *("duckdb==1.5.5", *(f"duckdb-extension-{name}==1.5.5" for name in _EXTENSIONS)),
    *("msgspec", "jinja2", "pyarrow==26.0.1", "pyiceberg[sql-sqlite]==0.12.0", "deltalake==1.6.6"),
)


_TABLES = """
import json
import sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

catalogue, root, properties, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
rows = pa.table({
    "id": pa.array(range(10), pa.int64()),
    "name": [f"n{i}" for i in range(10)],
    "total": [i / 2 for i in range(10)],
})
catalog = SqlCatalog("shop", uri=f"sqlite:///{catalogue}", warehouse=f"{root}/iceberg", **properties)
catalog.create_namespace("shop")
table = catalog.create_table("shop.orders", schema=rows.schema)
table.append(rows)
table.append(rows.slice(0, 3))
table.delete("id = 4")
delta = f"{root}/delta".removeprefix("file://")
write_deltalake(delta, rows, storage_options=options)
write_deltalake(delta, rows.slice(0, 3), mode="append", storage_options=options)
if options:
    DeltaTable(delta, storage_options=options).create_checkpoint()
DeltaTable(delta, storage_options=options).delete("id = 4")
"""


def lakes_python() -> str:
    return str(python_environment("lakes", *_PACKAGES) / "python")


@cache
def written_tables() -> Path:
    """A folder with a table `shop.orders` of Iceberg, its catalogue `catalog.sqlite`, and a table `delta`: ten rows,
    then three of them again, then the row with id 4 gone. It is read-only: tests that change it take a copy."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-lakes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _write(folder, f"file://{folder}", {}, {})
    return folder


@cache
def bucket_tables() -> tuple[Bucket, Path]:
    """The same tables in a bucket of S3, and the folder of the catalogue. The log of `delta` has a checkpoint. They
    are read-only."""
    folder, bucket = Path(tempfile.mkdtemp(prefix="noetl-lakes-")), s3_bucket()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    endpoint, key, secret = (bucket.auth[name] for name in ("endpoint", "access_key_id", "secret_access_key"))
    names = {"s3.endpoint": endpoint, "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": "us-east-1"}
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    _write(folder, bucket.url, names, {**options, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"})
    return bucket, folder


def _write(folder: Path, root: str, properties: dict[str, str], options: dict[str, str]) -> None:
    arguments = (f"{folder}/catalog.sqlite", root, json.dumps(properties), json.dumps(options))
    subprocess.run([lakes_python(), "-c", _TABLES, *arguments], check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def lake_interpreters() -> Iterator[None]:
    """The setting that names it for every kind of lake."""
    with pytest.MonkeyPatch.context() as patch:
        python = lakes_python()
        patch.setenv("NOETL_INTERPRETERS", ",".join(f"{kind}={python}" for kind in ("ducklake", "iceberg", "delta")))
        yield
