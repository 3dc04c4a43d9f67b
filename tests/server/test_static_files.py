"""The page of the web UI, for browsers that ask for an address that is not there; programs get a problem instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.operations.administration_shapes import Role
from noetl.server import static_files as page
from tests.server.talking import talking

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a UI of its own, where nothing is built yet."""
    monkeypatch.setattr(page, "folder", lambda: tmp_path)
    page._built.cache_clear()
    yield tmp_path
    page._built.cache_clear()


@pytest.fixture
def built(ui: Path) -> None:
    (ui / "index.html").write_text('<base href="/" /><title>NoETL</title>')


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("path", ["/nonsense", "/non/sense?q=1", "/apis", "/openapi/nonsense"])
async def test_a_browser_at_an_unknown_address_gets_the_not_found_page(path: str) -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer = await viewer.get(path, headers=BROWSER)
        stranger = await viewer.get(path, headers={**BROWSER, "authorization": ""})

    for one, status in ((answer, 404), (stranger, 401)):
        assert one.status_code == status, "whoever is not known does not learn what there is"
        assert one.headers["content-type"] == "text/html; charset=utf-8"
        assert one.headers["cache-control"] == "no-store"
        assert "base-uri 'self'" in one.headers["content-security-policy"]
        assert "<title>NoETL</title>" in one.text
    assert stranger.headers["www-authenticate"] == "Bearer"


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/api", BROWSER),
        ("GET", "/api/nonsense", BROWSER),
        ("GET", "/api/executions/none", BROWSER),
        ("GET", "/assets/none.js", BROWSER),
        ("GET", "/nonsense", {"accept": "*/*"}),
        ("GET", "/nonsense", {"accept": "application/json"}),
        ("POST", "/nonsense", BROWSER),
        ("POST", "/catalog", BROWSER),
    ],
)
async def test_programs_get_a_plain_not_found_answer(method: str, path: str, headers: dict[str, str]) -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer = await viewer.request(method, path, headers=headers)

    assert answer.status_code in (404, 405)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.usefixtures("ui")
async def test_a_server_without_a_ui_serves_no_page() -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer, home = await viewer.get("/nonsense", headers=BROWSER), await viewer.get("/", headers=BROWSER)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "make ui" in home.text
