"""The start of a server: it loads what it needs to serve, and nothing that only some requests need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# What the first request for it loads: checking, proving, migrating and drawing texts, and making HTTP requests.
LATER = (
    "httpcore2",
    "httpx2",
    "yaml",
    "noetl.language.checking",
    "noetl.language.compiling",
    "noetl.language.conversion",
    "noetl.language.drawing.drawing",
    "noetl.language.formatting.formatter",
    "noetl.language.migrating.migrator",
    "noetl.language.proving.certificate",
    "noetl.tools.http.tool",
)
MOST = 1_080  # modules in all, those of the interpreter included; there are 994
CODE = """
import asyncio, json, sys
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import serving

async def start(db):
    async with serving(ServerSettings(db=db, port=0)):
        print(json.dumps(sorted(sys.modules)))

asyncio.run(start(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The modules of a server that listens, in a process of its own."""
    db = tmp_path_factory.mktemp("start") / "store.db"
    done = subprocess.run([sys.executable, "-c", CODE, str(db)], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_starting_server_imports_nothing_that_only_some_requests_need(loaded: list[str]) -> None:
    assert [name for name in LATER if name in loaded] == []


def test_a_starting_server_imports_a_bounded_number_of_modules(loaded: list[str]) -> None:
    assert len(loaded) <= MOST


def test_lazily_imported_modules_exist(tmp_path: Path) -> None:
    """A module that was renamed would never be found among those that are loaded."""
    code = f"import importlib.util as u; print([name for name in {LATER!r} if u.find_spec(name) is None])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.strip() == "[]"
