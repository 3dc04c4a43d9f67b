"""Imports go down the stairs, never up, and never from one room to its neighbour (STYLE §1)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "noetl"

STAIRS: dict[int, tuple[str, ...]] = {
    9: ("cli", "testing"),
    8: ("embedded", "server", "client"),
    7: ("conversion",),
    6: ("orchestrator", "worker", "checking"),
    5: ("store", "dispatch", "tools", "keychain"),
    4: ("compiler", "analysis", "engine", "migration", "graph", "schema"),
    3: ("pipeline",),
    2: ("net",),
    1: ("document", "templates", "records"),
    0: (
        "addresses",
        "clock",
        "crash_points",
        "durations",
        "ids",
        "source",
        "diagnostics",
        "settings",
        "nats_leaving",
        "trust",
        "private_files",
        "errors",
        "redaction",
        "secret_forms",
        "template_names",
    ),
}
STAIR = {room: stair for stair, rooms in STAIRS.items() for room in rooms}
PURE = (
    {room for stair in (1, 2, 3, 4) for room in STAIRS[stair]}
    | {"source", "diagnostics", "durations", "errors", "template_names"}
    | {
        "redaction",
        "secret_forms",
    }
)

# Modules that reach outside: the pure rooms are given time, ids and text instead.
PLUMBING = {
    "asyncio",
    "socket",
    "subprocess",
    "sqlite3",
    "time",
    "random",
    "os",
    "pathlib",
    "threading",
    "http",
}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "noetl" else None


def modules() -> list[Path]:
    return sorted(
        path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py" and path.name != "__main__.py"
    )


def imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" if node.module == "noetl" else node.module for alias in node.names]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_the_stairs(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert room in STAIR, f"{room} has no stair: give it one here and in CONTRIBUTING.md"

    for module in imports(path):
        other = room_of(module)
        if other is None or other == room or STAIR[room] == STAIR[other] == 0:  # the ground floor is one room
            continue
        assert STAIR[other] < STAIR[room], (
            f"{path.name} imports {module}: {room} is on stair {STAIR[room]}, {other} on {STAIR[other]}"
        )


@pytest.mark.parametrize(
    "path",
    [p for p in modules() if p.relative_to(SOURCE).parts[0].removesuffix(".py") in PURE],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_pure_rooms_have_no_plumbing(path: Path) -> None:
    tree = ast.parse(path.read_text())

    assert not {module.split(".")[0] for module in imports(path)} & PLUMBING
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
