"""The documentation at /docs: pages and files of the built site, nothing else, and scripts by their digests only."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from noetl.server import static_files
from noetl.server.routes import pages
from tests.server.talking import talking

SCRIPT = "var a = 1"
PAGE = f'<!doctype html><script>{SCRIPT}</script><a href="../">up</a>'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small site in place of the one that may have been built."""
    monkeypatch.setattr(static_files, "built_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(pages, "built_folder", lambda name: tmp_path / name)
    for cached in (static_files.built_files, static_files._compressed_file, pages._policy):
        cached.cache_clear()
    yield tmp_path / "_docs"
    for cached in (static_files.built_files, static_files._compressed_file, pages._policy):
        cached.cache_clear()


@pytest.fixture
def built(site: Path) -> Path:
    for name, text in {"index.html": PAGE, "tutorial/run/index.html": PAGE, "examples/hello.yaml": "a: 1\n"}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    (site.parent / "secret.txt").write_text("secret")
    return site


async def test_pages_and_files_need_no_token(built: Path) -> None:
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        first = await stranger.get("/docs/")
        page = await stranger.get("/docs/tutorial/run/")
        plain = await stranger.get("/docs/examples/hello.yaml", headers={"accept-encoding": "identity"})

    assert (first.status_code, first.text, first.headers["content-encoding"]) == (200, PAGE, "gzip")
    assert page.headers["content-type"].startswith("text/html")
    assert (plain.text, plain.headers["content-type"]) == ("a: 1\n", "text/plain; charset=utf-8")


async def test_a_folder_without_a_slash_is_redirected_under_any_prefix(built: Path) -> None:
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        led = [(await stranger.get(path)).headers["location"] for path in ("/docs", "/docs/tutorial/run")]

    assert led == ["docs/", "run/"]


@pytest.mark.parametrize(
    "path", ["../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "nothing", "tutorial", "/etc/passwd"]
)
async def test_other_paths_are_not_found(built: Path, path: str) -> None:
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        answer = await stranger.get(f"/docs/{path}")

    assert answer.status_code in (401, 404)
    assert "secret" not in answer.text.replace("secret.txt", "")


async def test_only_the_built_in_scripts_can_run(built: Path) -> None:
    async with talking(workers=0) as talk:
        policy = (await talk.client.get("/docs/")).headers["content-security-policy"]

    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert re.search(r"https?:", policy) is None


async def test_a_server_without_documentation_explains_how_to_get_it(site: Path) -> None:
    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        answer = await stranger.get("/docs/")

    assert answer.status_code == 200
    assert "<code>make wheel</code> builds a wheel that has it" in answer.text
    assert "make docs-site" in answer.text


async def test_the_openapi_description_is_at_its_path(site: Path) -> None:
    async with talking(workers=0) as talk:
        page = await talk.client.get("/openapi")
        script = await talk.client.get("/openapi/docs.js")

    assert 'src="/openapi/docs.js"' in page.text
    assert script.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_script_that_an_upgrade_has_replaced_is_not_found(site: Path, encoding: str) -> None:
    script = site.parent / "_ui" / "assets" / "first.js"
    script.parent.mkdir(parents=True)
    script.write_text("1")
    assert "assets/first.js" in static_files.built_files("_ui")
    script.unlink()

    async with talking(workers=0) as talk, talk.with_token(None) as stranger:
        answer = await stranger.get("/assets/first.js", headers={"accept-encoding": encoding})

    assert answer.status_code == 404
