"""The UI's types are made from the API as it is: `npm run types` in ui/ makes both files anew."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.openapi import PLACE, description

UI = Path(__file__).parents[2] / "ui"
WAY_OUT = "the API has changed: run npm run types in ui/"


def test_the_description_of_the_api_is_the_present_one() -> None:
    assert json.loads(PLACE.read_text("utf-8")) == json.loads(json.dumps(description())), WAY_OUT


def test_the_types_are_made_from_it() -> None:
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
