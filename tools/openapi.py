"""Write the description of the HTTP API, from which the web UI's types are made (`npm run types`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

PLACE = Path(__file__).parents[1] / "ui" / "openapi.json"


def application() -> FastAPI:
    """A server's application without a server."""
    from noetl.base.clock import SystemClock
    from noetl.server.app import build
    from noetl.server.configuration import ServerSettings
    from noetl.server.services import make_services
    from noetl.store.memory import MemoryStore
    from noetl.store.results.files import MemoryResults
    from noetl.tools.registry import Registry

    settings = ServerSettings(db=":memory:", workers=0)
    services = make_services(settings, MemoryStore(), MemoryResults(), clock=SystemClock(), tools=Registry({}))
    return build(services)


def description() -> dict[str, Any]:
    """The description as the server returns it, without the version of the package, which changes on its own."""
    schema: dict[str, Any] = application().openapi()
    return {**schema, "info": {**schema["info"], "version": "0"}}


def written() -> str:
    return json.dumps(description(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.write_text(written(), encoding="utf-8")
    sys.stderr.write(f"{PLACE.name} is written\n")
