"""What the tests of tables share: a PostgreSQL database, and transfers that leave no file."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.servers.postgres import pg_auth
from tests.tools.tables.tasks import Transfers

__all__ = ["pg_auth"]


@pytest_asyncio.fixture
async def here(tmp_path: Path, pg_auth: dict[str, Any], tmp_path_factory: Any) -> AsyncIterator[Transfers]:
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    transfers = Transfers(tmp_path, pg_auth)
    yield transfers
    await transfers.close()
    left = [one.name for one in Path(tempfile.tempdir).glob("noetl-table*")]
    tempfile.tempdir = None
    assert left == [], "a transfer leaves no file behind"
