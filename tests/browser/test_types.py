"""The UI's types are made from the API as it is: `npm run types` in ui/ makes both files anew."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.openapi import PLACE, description

UI = Path(__file__).parents[2] / "ui"
WAY_OUT = "the API has changed: run npm run types in ui/"
MOST = 10  # differences that are named: pytest would show both descriptions, 75,000 lines


def differences(kept: Any, present: Any, place: str = "") -> Iterator[str]:
    """Where two descriptions differ, at the innermost places."""
    if not (isinstance(kept, dict) and isinstance(present, dict)):
        if kept != present:
            yield place
        return
    for name in sorted(kept.keys() | present.keys()):
        inner = f"{place} > {name}" if place else str(name)
        if name in kept and name in present:
            yield from differences(kept[name], present[name], inner)
        else:
            yield f"{inner} (only in {'ui/openapi.json' if name in kept else 'the API'})"


def test_the_stored_openapi_description_is_current() -> None:
    found = list(differences(json.loads(PLACE.read_text("utf-8")), json.loads(json.dumps(description()))))

    if found:  # no assertion over the two: its report would hold them whole
        more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
        pytest.fail("\n".join([WAY_OUT, *found[:MOST], *more]), pytrace=False)


def test_a_difference_between_descriptions_is_reported_by_its_path() -> None:
    kept = {"paths": {"/api/a": {"get": 1}, "/api/b": {"get": [1, 2]}}, "info": {"version": "0"}}
    present = {"paths": {"/api/b": {"get": [1, 3]}, "/api/c": {"get": 1}}, "info": {"version": "0"}}

    found = list(differences(kept, present))

    assert found == [
        "paths > /api/a (only in ui/openapi.json)",
        "paths > /api/b > get",
        "paths > /api/c (only in the API)",
    ]


def test_the_typescript_types_match_the_description() -> None:
    program = UI / "node_modules" / ".bin" / "openapi-typescript"
    if not program.exists() or shutil.which("node") is None:
        pytest.skip("THE TYPES WERE NOT COMPARED: ui/node_modules is not installed (make ui)")
    told = subprocess.run(
        [program, "openapi.json", "--empty-objects-unknown", "-o", "src/lib/api/types.ts", "--check"],
        cwd=UI,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, f"{WAY_OUT}\n{told.stdout}{told.stderr}"
