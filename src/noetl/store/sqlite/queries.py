"""The statements of the store in SQLite."""

from __future__ import annotations

from pathlib import Path

from noetl.store.named_queries import named_queries

QUERIES = named_queries(Path(__file__).with_name("queries.sql"))
