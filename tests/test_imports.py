"""Imports only go down the list of packages, and the pure packages reach nothing outside (docs/architecture.md)."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "noetl"

# From the top down, as the pages list them: a package imports only those below it.
PACKAGES = (
    "cli",
    "testing",
    "client",
    "server",
    "operations",
    "control",
    "worker",
    "tools",
    "secrets",
    "store",
    "engine",
    "language",
    "events",
    "net",
    "templates",
    "base",
)
LEVEL = {package: level for level, package in enumerate(reversed(PACKAGES))}
PURE = frozenset({"templates", "net", "events", "language", "engine"})

# Modules that reach outside: the pure packages are given time, ids and text instead.
OUTSIDE = frozenset(
    {"asyncio", "socket", "subprocess", "sqlite3", "time", "random", "os", "pathlib", "threading", "http"}
)
# The one place where the language meets files: `compiled` takes a path, and asks installed plug-ins for their kinds.
EXCEPTIONS = {("language/checking.py", "pathlib"), ("language/checking.py", "noetl.tools.kinds")}

# What the modules of v2-case offer to others, by package.
DOORS = {"language": {"port"}, "engine": {"port", "evolution", "routing", "listeners"}}


def modules() -> list[Path]:
    return sorted(
        path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py" and path.name != "__main__.py"
    )


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [f"{node.module}.{alias.name}" if node.module == "noetl" else node.module for alias in node.names]
    return found


def place(path: Path) -> Path:
    return path.relative_to(SOURCE)


def package_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "noetl" else None


def test_every_module_has_a_place_in_the_list_of_packages() -> None:
    """Another package gets a place here and in docs/architecture.md."""
    assert {place(path).parts[0].removesuffix(".py") for path in modules()} <= set(LEVEL)


def test_imports_go_down_the_list_of_packages() -> None:
    upwards = [
        f"{place(path)} imports {module}, which is above it"
        for path in modules()
        for module in imports(path)
        if (other := package_of(module)) is not None and (str(place(path)), module) not in EXCEPTIONS
        if LEVEL[other] > LEVEL[place(path).parts[0].removesuffix(".py")]
    ]

    assert upwards == []


def test_pure_packages_import_nothing_impure() -> None:
    pure = [path for path in modules() if place(path).parts[0] in PURE]
    reached = [
        f"{place(path)} imports {module}"
        for path in pure
        for module in imports(path)
        if module.split(".")[0] in OUTSIDE and (str(place(path)), module) not in EXCEPTIONS
    ]
    waiting = [
        f"{place(path)}:{node.lineno} waits"
        for path in pure
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Await | ast.AsyncFunctionDef)
    ]

    assert len(pure) > 100
    assert reached + waiting == []


def test_older_dialects_are_imported_only_through_their_port() -> None:
    """v2-case has one address per package: who is not of it imports its door, and nothing behind it."""
    outside = [
        f"{place(path)} imports {module}"
        for path in modules()
        if "v2_case" not in str(place(path)) and "v2_case" in path.read_text("utf-8")  # few: the others are not parsed
        for module in imported_modules(path)
        if (found := re.match(r"noetl\.(\w+)\.v2_case\.(\w+)", module)) and found[2] not in DOORS[found[1]]
    ]

    assert len([path for path in modules() if "v2_case" in str(place(path))]) > 20
    assert outside == []


def imported_modules(path: Path) -> set[str]:
    return {name if name in imports(path) else name.rpartition(".")[0] for name in imported_names(path)} | {
        name for name in imported_names(path) if (SOURCE.parent / name.replace(".", "/")).with_suffix(".py").exists()
    }


def test_no_test_module_imports_another() -> None:
    """What tests share is in a module that is named for it, so that it can be found, and moved tests break nothing."""
    shared = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module in imported_names(path)
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    }

    assert shared == set()


def imported_names(path: Path) -> set[str]:
    """Modules and what is imported from them, which may be a module too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_every_core_dependency_is_imported() -> None:
    """What nothing imports is installed, audited and updated by every user for nothing."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    distributions = packages_distributions()
    used = {
        re.sub(r"[-_.]+", "-", distribution).lower()
        for path in modules()
        for module in imports(path)
        for distribution in distributions.get(module.split(".")[0], ())
    }

    names = {re.split(r"[<>=!~;\[ ]", requirement)[0].lower() for requirement in declared}
    assert len(names) > 10
    assert sorted(names - used) == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/style.md"])
def test_the_pages_list_the_packages_in_the_same_order(page: str) -> None:
    text = (ROOT / page).read_text()

    listed = re.findall(r"^\| `([a-z]+)` \|", text, re.M) or re.findall(r"^  ([a-z]+)/ ", text, re.M)
    assert tuple(listed) == PACKAGES


def test_every_package_has_a_front_page() -> None:
    pages = {path: ast.get_docstring(ast.parse(path.read_text())) for path in SOURCE.rglob("__init__.py")}

    assert [str(path.relative_to(SOURCE)) for path, text in pages.items() if not text] == []


def test_every_file_that_the_architecture_page_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()

    named = {name for name in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*/?[a-z_0-9]*\.py)`", text) if "/" in name}
    assert len(named) > 30
    assert sorted(name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()) == []


def test_every_code_name_on_the_architecture_page_exists_in_its_stated_file() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()

    placed = re.findall(r"`((?:\w+\.)*\w+)`\s+\(`([\w/]+/\w+\.py)`", text)

    assert len(placed) > 20
    missing = [
        f"{name} in {file}"
        for name, file in placed
        if not re.search(rf"\b{name.rpartition('.')[2]}\b", (SOURCE / file).read_text())
    ]
    assert missing == []


def test_every_file_that_a_front_page_names_exists() -> None:
    pages = {path.parent: ast.get_docstring(ast.parse(path.read_text())) or "" for path in SOURCE.rglob("__init__.py")}
    named = [(folder, name) for folder, text in pages.items() for name in re.findall(r"`([\w/]+\.py)`", text)]

    assert len(named) > 100
    missing = [
        f"{folder.relative_to(SOURCE)}: {name}"
        for folder, name in named
        if not any((place / name).exists() for place in (folder, SOURCE, ROOT))
    ]
    assert missing == []
