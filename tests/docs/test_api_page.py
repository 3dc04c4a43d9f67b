"""docs/api.md names only what is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.server.talking import talking

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


async def test_the_page_and_the_api_have_the_same_routes() -> None:
    async with talking(workers=0) as talk:
        paths = {path.replace(":path", "") for path in (await talk.get("/openapi.json"))["paths"]}
    text = PAGE.read_text()
    named = {one.partition("?")[0] for one in re.findall(r"/(?:api|hooks)/[\w{}/.-]+[\w}]", text)} | {"/metrics"}
    tails = re.findall(r"…(/[\w{}/-]+)", text)

    assert {path for path in named if path not in paths and path != "/api/health"} == set()
    for tail in tails:
        assert any(path.endswith(tail) for path in paths), tail
    ours = {path for path in paths if path.startswith("/api/executions")}
    assert {path for path in ours if path not in named and "…" + path.rpartition("}")[2] not in text} == set()
