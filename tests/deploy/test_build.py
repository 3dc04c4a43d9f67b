"""A build: a later one has a higher version, whatever it is built from, and everything that names a version names the
same one (docs/upgrade.md, CONTRIBUTING.md "A release"); and the pages in it are those of the checkout."""

from __future__ import annotations

import ensurepip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.deploy.image import DOCKERFILE, arguments, stages
from tools.version import ROOT, build_version, newest_release

RELEASE, IS_RELEASED = newest_release((ROOT / "CHANGELOG.md").read_text())
COPIED = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "tools/version.py")


@pytest.fixture(autouse=True)
def _no_version_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETL_BUILD_VERSION", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the build reads, with almost no code: packing all of it would take the most time."""
    root = tmp_path / "clone"
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name in ("src/noetl/__init__.py", "examples/hello.yaml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 — unreleased\n")
    git(root, "init", "--quiet")
    commit(root, "2026-01-02T03:04:05Z")
    return root


def git(root: Path, *words: str, **environment: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    subprocess.run(["git", "-C", str(root), *who, *words], env=os.environ | environment, check=True)


def commit(root: Path, at: str) -> None:
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "change", GIT_COMMITTER_DATE=at)


def built(root: Path, kind: str = "wheel") -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(root.parent / "dist")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return max((root.parent / "dist").glob("*.whl" if kind == "wheel" else "*.tar.gz"), key=os.path.getmtime)


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def test_pip_upgrades_an_earlier_build_to_a_later_one(project: Path, tmp_path: Path) -> None:
    first = built(project)
    commit(project, "2026-01-02T03:04:06Z")
    second = built(project)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python, pip = tmp_path / "venv/bin/python", next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))

    for wheel in (first, second):
        words = [str(python), f"{pip}/pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(words, check=True, timeout=300)

    told = "from importlib.metadata import version; print(version('noetl-engine'))"
    installed = subprocess.run([str(python), "-c", told], capture_output=True, text=True, check=True).stdout.strip()
    assert (version_of(first), installed) == ("3.1.0.dev20260102030405", "3.1.0.dev20260102030406")


def test_a_source_archive_keeps_its_version(project: Path) -> None:
    archive = built(project, "sdist")
    shutil.unpack_archive(archive, project.parent / "unpacked", filter="data")

    wheel = built(next((project.parent / "unpacked").iterdir()))

    assert version_of(wheel) == "3.1.0.dev20260102030405"


# Builders that write what their sources say, where the real ones do.
UI_BUILDER = "mkdir -p src/noetl/_ui && cat ui/src/*.ts > src/noetl/_ui/index.html\n"
DOCS_BUILDER = "#!/bin/sh\nmkdir -p src/noetl/_docs && cat docs/*.md > src/noetl/_docs/index.html\n"


@pytest.fixture
def pages(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with sources of a UI and of documentation, all made an hour ago, and what builds them."""
    monkeypatch.delenv("NOETL_SKIP_UI", raising=False)
    program(project / "bin/npm", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{project / 'bin'}:{os.environ['PATH']}")
    program(project / "tools/ui.sh", UI_BUILDER)
    program(project / ".venv/bin/mkdocs", DOCS_BUILDER)
    for name, text in (
        ("ui/package.json", "{}"),
        ("ui/src/a.ts", "first"),
        ("docs/index.md", "first"),
        ("mkdocs.yml", ""),
    ):
        program(project / name, text)
    for name in ("ui", "docs", "examples"):
        for path in (project / name, *(project / name).rglob("*")):
            made_before(path)
    return project


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def made_before(path: Path, seconds: float = 3_600) -> None:
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def pages_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as opened:
        return [opened.read(f"noetl/{folder}/index.html").decode() for folder in ("_ui", "_docs")]


def test_a_wheel_contains_the_ui_of_the_checkout_even_after_a_change(pages: Path) -> None:
    first = pages_in(built(pages))
    for name in ("ui/src/a.ts", "docs/index.md"):
        (pages / name).write_text("second")
    for folder in ("_ui", "_docs"):  # an earlier build than the change, whatever the clock of files can tell apart
        made_before(pages / f"src/noetl/{folder}/index.html", 60)

    second = pages_in(built(pages))

    assert (first, second) == (["first", "first"], ["second", "second"])


def test_an_up_to_date_ui_is_not_built_again(pages: Path) -> None:
    built(pages)
    program(pages / "tools/ui.sh", "exit 3\n")
    program(pages / ".venv/bin/mkdocs", "#!/bin/sh\nexit 3\n")

    assert pages_in(built(pages)) == ["first", "first"]


def test_uncommitted_changes_make_a_build_newer_than_its_commit(project: Path) -> None:
    (project / "LICENSE").write_text("another")

    assert build_version(project) > "3.1.0.dev20260102030405"


def test_a_shallow_clone_has_the_same_version_as_a_full_one(project: Path, tmp_path: Path) -> None:
    commit(project, "2026-02-01T00:00:00Z")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{project}", "shallow")

    assert build_version(tmp_path / "shallow") == build_version(project) == "3.1.0.dev20260201000000"


def test_a_release_has_three_numbers_and_a_copy_without_a_repository_has_no_time(project: Path) -> None:
    shutil.rmtree(project / ".git")

    copied = build_version(project)
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 — 2026-03-01\n\n- x\n\n## 3.0.0 — 2026-01-01\n")

    assert (copied, build_version(project)) == ("3.1.0.dev0", "3.1.0")


def test_a_first_section_without_a_version_is_refused() -> None:
    with pytest.raises(SystemExit, match='begins with "## Next", not with'):
        newest_release("# Changelog\n\n## Next\n\n## 0.1.0 — unreleased\n")


def test_an_image_build_takes_its_version_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_BUILD_VERSION", "4.0.0.dev7")
    chosen = build_version()
    monkeypatch.setenv("NOETL_BUILD_VERSION", "new")

    with pytest.raises(SystemExit, match="NOETL_BUILD_VERSION is 'new'"):
        build_version()
    assert chosen == "4.0.0.dev7"


def test_chart_image_and_changelog_name_the_same_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/noetl/Chart.yaml").read_text())
    default = arguments(DOCKERFILE.read_text())["VERSION"]
    found = {stage.name: [one.text for one in stage.instructions] for stage in stages(DOCKERFILE.read_text())}

    assert (chart["version"], chart["appVersion"]) == (RELEASE, RELEASE)
    assert default == (RELEASE if IS_RELEASED else f"{RELEASE}.dev0")
    assert build_version().partition(".dev")[0] == RELEASE
    assert any("org.opencontainers.image.version=$VERSION" in text for text in found["final"])
    assert any("NOETL_BUILD_VERSION=$VERSION" in text for text in found["build"])
    # An argument from before the first stage is empty in a stage that does not name it.
    assert all("VERSION" in found[stage] for stage in ("build", "final"))
