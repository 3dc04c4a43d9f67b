"""Fixtures of the table tests: the tools, a PostgreSQL database, and transfers that leave no file.

All tests of a module use the same tools and one event loop. Each tool starts a child process with DuckDB or SQLAlchemy,
half a second of processor time; tools of its own for each test were nine tenths of what these tests cost.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.servers.postgres import pg_auth
from tests.tools.table_tasks import SharedTools, Transfers

__all__ = ["pg_auth"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_tools() -> AsyncIterator[SharedTools]:
    tools = SharedTools()
    yield tools
    await tools.close()


@pytest_asyncio.fixture(loop_scope="module")
async def here(
    tmp_path: Path, pg_auth: dict[str, Any], tmp_path_factory: Any, shared_tools: SharedTools
) -> AsyncIterator[Transfers]:
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    transfers = Transfers(tmp_path, shared_tools, pg_auth)
    yield transfers
    transfers.close()
    left = [one.name for one in Path(tempfile.tempdir).glob("noetl-table*")]
    tempfile.tempdir = None
    assert left == [], "a transfer leaves no file behind"
