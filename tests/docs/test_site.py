"""The documentation as a site: built strictly, every page in its navigation, no dead link, no file of another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="make test installs requirements-docs.lock")
ASSETS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """What a page links to, loads and can be linked to at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.navigation: list[str] = []
        self._inside = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "nav":
            self._inside += 1
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._inside:
                self.navigation.append(given["href"])
        if (name := ASSETS.get(tag)) is not None and name in given:
            self.loaded.append(given[name])

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._inside -= 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@cache
def page_of(file: Path) -> Page:
    return Page(file.read_text("utf-8"))


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for file in sorted(site.rglob("*.html")):
        if file.name != "404.html":  # it is shown at any address, so its links begin at the root
            yield file, page_of(file)


def target(site: Path, file: Path, link: str) -> tuple[Path, str]:
    """The file a link leads to, and the anchor in it."""
    parts = urlsplit(link)
    assert not parts.path.startswith("/"), f"{link} works at the root of a host only"
    found = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    return (found / "index.html" if found.is_dir() else found), unquote(parts.fragment)


def test_no_link_is_broken(site: Path) -> None:
    dead = []
    for file, page in pages(site):
        for link in (*page.links, *page.loaded):
            if urlsplit(link).scheme:
                continue
            found, anchor = target(site, file, link)
            is_there = found.is_file() and (
                not anchor or anchor.startswith("__") or found.suffix != ".html" or anchor in page_of(found).anchors
            )
            if not is_there:
                dead.append(f"{file.relative_to(site)} -> {link}")

    assert dead == []


def test_every_page_is_reachable_from_the_navigation_of_the_first(site: Path) -> None:
    start = site / "index.html"
    reached = {target(site, start, link)[0] for link in page_of(start).navigation if not urlsplit(link).scheme}

    assert {str(file.relative_to(site)) for file, _ in pages(site) if file not in reached} == set()


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    built = {str(file.parent.relative_to(site)) for file, _ in pages(site)}
    sources = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    expected = {str(one.parent if one.name in ("index.md", "README.md") else one.with_suffix("")) for one in sources}

    assert expected <= built


def test_the_site_is_in_learning_order(site: Path) -> None:
    text = (site / "index.html").read_text()
    tabs = re.findall(r'class="md-tabs__link"[^>]*>\s*([^<]+?)\s*<', text)

    assert tabs[0] == "Home"
    assert tabs[-4:] == ["Tutorial", "How-to", "Reference", "Explanation"]


def test_no_page_loads_from_another_host(site: Path) -> None:
    loaded = {link for _, page in pages(site) for link in page.loaded if urlsplit(link).netloc}
    styles = [file for file in site.rglob("*.css") if re.search(r"url\(['\"]?(https?:)?//", file.read_text("utf-8"))]
    scripts = [
        str(file.relative_to(site))
        for file in site.rglob("*.js")
        if re.search(r"['\"]https?://(?!www\.w3\.org|api\.github\.com|gitlab\.com)", file.read_text("utf-8"))
    ]

    assert loaded == set()
    assert styles == []
    assert scripts == []


def test_the_site_contains_examples_and_a_search(site: Path) -> None:
    assert (site / "examples" / "hello.yaml").read_text() == (ROOT / "examples" / "hello.yaml").read_text()
    assert "credential" in (site / "search" / "search_index.json").read_text()
    assert 'data-md-color-scheme="slate"' in (site / "index.html").read_text()
