"""Hooks of MkDocs, for `make docs-site`: examples and the changelog join the site, and fences keep their own words.

The pages are read on a code forge and by tests as well, so they stay as they are, and what MkDocs needs is changed on
the way: links to `../examples/` lead to copies in the site, and `yaml step` is YAML.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^```yaml (?:step|task)$", re.M)
BESIDE = ("CHANGELOG.md", "SECURITY.md")  # pages that lie beside docs/
_TO_ROOT = re.compile(rf"\]\(((?:\.\./)+)(examples/|{'|'.join(map(re.escape, BESIDE))})")
_TO_DOCS = re.compile(r"\]\((?:\.\./)?docs/")


def slug(text: str, separator: str) -> str:
    """The anchor of a heading as code forges make it: lower case, words by hyphens, nothing else."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    config["nav"] = expanded(config["nav"], named(config["nav"]), Path(config["docs_dir"]))
    return config


def named(nav: list[Any]) -> set[str]:
    """Every page that the navigation names itself."""
    found: set[str] = set()
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found |= named(value) if isinstance(value, list) else {value}
    return found


def expanded(nav: list[Any], known: set[str], docs: Path) -> list[Any]:
    """The navigation with each `folder/*` replaced by the pages of that folder."""
    whole: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            whole.append(
                {
                    name: expanded(value, known, docs) if isinstance(value, list) else value
                    for name, value in entry.items()
                }
            )
        elif entry.endswith("/*"):
            pages = (path.relative_to(docs).as_posix() for path in sorted(docs.glob(f"{entry}.md")))
            whole += [page for page in pages if page not in known]
        else:
            whole.append(entry)
    return whole


def on_files(files: Files, *, config: Any) -> Files:
    for path in [*sorted((ROOT / "examples").rglob("*")), *(ROOT / name for name in BESIDE)]:
        if path.suffix in (".yaml", ".md"):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(text: str, *, page: Any, config: Any, files: Any) -> str:
    text = _FENCE.sub("```yaml", text)
    if page.file.src_uri.startswith("examples/"):
        return _TO_DOCS.sub("](../", text)
    if page.file.src_uri in BESIDE:
        return _TO_DOCS.sub("](", text)
    # docs/ is the root of the site, so the way to what lies beside it is one folder shorter.
    return _TO_ROOT.sub(lambda found: f"]({found[1].removeprefix('../')}{found[2]}", text)


def on_post_build(*, config: Any) -> None:
    """Leave out what an English site without diagrams never loads, and the host that its parts would come from."""
    scripts = Path(config["site_dir"]) / "assets" / "javascripts"
    shutil.rmtree(scripts / "lunr", ignore_errors=True)
    for part in Path(config["site_dir"]).rglob("*.map"):
        part.unlink()
    for bundle in scripts.glob("bundle.*.js"):
        bundle.write_text(bundle.read_text("utf-8").replace("https://unpkg.com/", "not-shipped/"), "utf-8")
