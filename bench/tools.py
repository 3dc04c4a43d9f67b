"""Moving rows: PostgreSQL to Parquet and back, by `transfer`, by a script of our own, and by dlt.

    make bench ARGS="--group tools"
    NOETL_BENCH_ROWS=1000000 NOETL_BENCH_WAYS=transfer,script make bench ARGS="--group tools"

Each runs in a process of its own on the same table. Seconds are wall clock, processor time is that of the process and
its children, memory is the largest sum of theirs, in which pages that several of them share count once; PostgreSQL
itself is in neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = int(os.environ.get("NOETL_BENCH_ROWS", "10000000"))
WAYS = os.environ.get("NOETL_BENCH_WAYS", "transfer,script,dlt").split(",")
TABLE = "id bigint, name text, price numeric(12, 2), created_at timestamptz, note text"
FILLED = """
INSERT INTO source SELECT n, 'customer ' || n, (n % 100000) / 100.0, timestamptz '2026-01-01' + n * interval '1 second',
  CASE WHEN n % 10 = 0 THEN NULL ELSE md5(n::text) END FROM generate_series(1, {rows}) AS n
"""
PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: moving, path: bench/moving }}
workflow:
  - step: start
    tool:
      - name: there
        kind: transfer
        source: {{ kind: postgres, auth: {auth}, table: source }}
        target: {{ kind: storage, url: rows.parquet }}
        spec: {{ timeout: 3600 }}
      - name: back
        kind: transfer
        source: {{ kind: storage, url: rows.parquet }}
        target: {{ kind: postgres, auth: {auth}, table: target }}
        chunk_size: 1000000
        spec: {{ timeout: 3600 }}
"""
SCRIPT = """
import asyncio, asyncpg, duckdb, sys
host, database = sys.argv[1:]
COLUMNS = {"id": "BIGINT", "name": "VARCHAR", "price": "DECIMAL(12,2)", "created_at": "TIMESTAMPTZ", "note": "VARCHAR"}
async def main():
    db = await asyncpg.connect(host=host, user="postgres", database=database)
    duck = duckdb.connect(config={"memory_limit": "512MB", "threads": "2"})
    await db.copy_from_table("source", output="rows.csv", format="csv", null="~")
    read = f"read_csv('rows.csv', header=false, auto_detect=false, nullstr='~', columns={COLUMNS})"
    duck.execute(f"COPY (SELECT * FROM {read}) TO 'rows.parquet' (FORMAT parquet)")
    duck.execute("COPY (SELECT * FROM 'rows.parquet') TO 'back.csv' (FORMAT csv, HEADER false, NULLSTR '~')")
    await db.copy_to_table("target", source="back.csv", format="csv", null="~")
    await db.close()
asyncio.run(main())
"""
DLT = """
import sys, dlt
from urllib.parse import quote
from dlt.sources.filesystem import filesystem, read_parquet
from dlt.sources.sql_database import sql_table
host, database = sys.argv[1:]
folder = quote(host, safe="")
url = f"postgresql+psycopg2://postgres@/{database}?host={folder}"
# As a destination dlt wants a host and a password in their places, and hands the URL to libpq as it is.
target = f"postgresql://postgres:none@{folder}/{database}"
lake = "file://" + sys.path[0] + "/lake"
options = {"dataset_name": "public", "pipelines_dir": "p"}
there = dlt.pipeline("there", destination=dlt.destinations.filesystem(lake), **options)
source = sql_table(credentials=url, table="source", schema="public", backend="pyarrow", chunk_size=100000)
there.run(source, loader_file_format="parquet")
files = filesystem(bucket_url=lake + "/public/source", file_glob="*.parquet")
back = dlt.pipeline("back", destination=dlt.destinations.postgres(target), **options)
back.run((files | read_parquet(chunksize=100000)).with_name("target"), write_disposition="append")
"""


def measured(repeats: int) -> list[dict[str, Any]]:
    """Figures of each way. One run each: what takes minutes does not vary by much."""
    from tests.servers.postgres import server

    database, found = "bench_moving", server()
    found.ask(f"DROP DATABASE IF EXISTS {database}")
    found.create(database)
    found.ask(f"CREATE TABLE source ({TABLE})", database)
    found.ask(FILLED.format(rows=ROWS), database)
    rows: list[dict[str, Any]] = []
    for name, command in (("transfer", _ours), ("script", _script), ("dlt", _dlt)):
        if name not in WAYS:
            continue
        found.ask(f"DROP TABLE IF EXISTS target, noetl_transfers; CREATE TABLE target ({TABLE})", database)
        with tempfile.TemporaryDirectory(prefix="noetl-bench-", ignore_cleanup_errors=True) as folder:
            try:
                rows += _run(name, command(Path(folder), found.socket, database), Path(folder))
            except RuntimeError as problem:
                print(f"{name} is not measured: {problem}", file=sys.stderr)
                continue
        count = found.ask("SELECT count(*) FROM target", database)
        if count != str(ROWS):
            print(f"{name} moved {count} of {ROWS} rows", file=sys.stderr)
    found.ask(f"DROP DATABASE {database}")
    return rows


def _ours(folder: Path, host: str, database: str) -> list[str]:
    auth = f"{{ host: {host}, user: postgres, database: {database} }}"
    (folder / "moving.yaml").write_text(PLAYBOOK.format(auth=auth))
    return [sys.executable, "-m", "noetl.cli.main", "run", "moving.yaml", "--db", ":memory:"]


def _script(folder: Path, host: str, database: str) -> list[str]:
    (folder / "moving.py").write_text(SCRIPT)
    return [sys.executable, "moving.py", host, database]


def _dlt(folder: Path, host: str, database: str) -> list[str]:
    from bench.peers.environments import environment

    (folder / "moving.py").write_text(DLT)
    return [str(environment("dlt").python), "moving.py", host, database]


def _run(name: str, command: list[str], folder: Path) -> list[dict[str, Any]]:
    began = time.monotonic()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NOETL_")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "RUNTIME__DLTHUB_TELEMETRY": "false"},
    )
    memory, cpu = _watched(process)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(said.strip()[-500:])
    wall = time.monotonic() - began
    what = f"{ROWS} rows PostgreSQL, Parquet, PostgreSQL: {name}"
    figures = (("s", wall), ("s", cpu), ("MiB", memory / (1 << 20)))
    suffixes = ("", ", processor time", ", peak memory")
    return [
        {"group": "tools", "what": what + more, "value": value, "unit": unit}
        for (unit, value), more in zip(figures, suffixes, strict=True)
    ]


def _watched(process: subprocess.Popen[str]) -> tuple[int, float]:
    """The most memory at one time, and the processor time, of a process and all its children."""
    import psutil  # type: ignore[import-untyped, unused-ignore]

    largest, spent = 0, dict[int, float]()
    top = psutil.Process(process.pid)
    while process.poll() is None:
        size = 0
        for one in _family(top):
            try:
                # A process that was just forked shares all its pages: resident sizes would count them twice.
                size += one.memory_full_info().pss
                times = one.cpu_times()
                spent[one.pid] = times.user + times.system
            except psutil.Error:
                continue
        largest = max(largest, size)
        time.sleep(0.1)
    return largest, sum(spent.values())


def _family(top: Any) -> list[Any]:
    import psutil

    try:
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []
