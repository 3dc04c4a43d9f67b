"""The places where results may be kept, each empty: files, memory, an object store, a NATS broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from noetl.store.contract import ResultStore
from noetl.store.open_store import open_results
from noetl.store.results.files import MemoryResults
from tests.servers.nats import server

PLACES = ("files", "memory", "objects", "nats")


@contextmanager
def kept_in(place: str, folder: Path) -> Iterator[ResultStore]:
    results: ResultStore
    match place:
        case "files":
            results = open_results(None, str(folder / "results"))
        case "objects":
            results = open_results(None, "memory:///")
        case "nats":
            results = open_results(None, f"{server().url}/r{uuid4().hex}")
        case _:
            results = MemoryResults()
    try:
        yield results
    finally:
        results.close()
