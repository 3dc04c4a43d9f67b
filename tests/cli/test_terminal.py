"""What commands print: no text of a playbook or of a tool controls the terminal."""

from __future__ import annotations

import json

import pytest

from noetl.cli.terminal import as_json, visible

CONTROLS = [
    "\x1b[2J",
    "\x9b2J",
    "\x7f",
    "\x85",
    "a\u202eb",
    "\u2066x\u2069",
    "\u2028",
    "\u200b",
    "\ufeff",
    "\U000e0041",
]


@pytest.mark.parametrize("text", CONTROLS)
@pytest.mark.parametrize("indent", [2, -1])
def test_json_holds_no_character_that_controls_a_terminal_and_the_same_value(text: str, indent: int) -> None:
    shown = as_json({"key": [text, "ü 日本 👩\u200d👧"], text: 1}, indent=indent)

    assert json.loads(shown) == {"key": [text, "ü 日本 👩\u200d👧"], text: 1}
    assert visible(shown.replace("\n", "")) == shown.replace("\n", "")
    assert "ü 日本 👩\u200d👧" in shown
