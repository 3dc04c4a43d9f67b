"""Levels of log lines: as Python's logging writes them, and others do."""

from __future__ import annotations

import io
import logging

import pytest

from noetl.operations.results import LEVELS, is_at_least, level_of, levels_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("WARNING:shop:late", "warning"),
        ("2026-01-02 03:04:05,678 - shop - ERROR - late", "error"),
        ("[INFO] reading", "info"),
        ("\x1b[31mCRITICAL\x1b[0m gone", "critical"),
        ("time=3 level=warn msg=late", "warning"),
        ('{"ts": 1, "level": "error", "msg": "late"}', "error"),
        ("FATAL: no such database", "critical"),
        ("reading page 1", None),
        ("an error was found", None),
        ("NO_ERROR here", None),
        ("ERRORS: 0", None),
        ("", None),
        ("x" * 200 + " ERROR", None),
    ],
)
def test_a_log_level_is_recognised_in_common_formats(line: str, level: str | None) -> None:
    assert level_of(line) == level


def test_continuation_lines_have_the_level_of_their_first_line() -> None:
    stream = io.StringIO()
    logger = logging.Logger("shop")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    logger.addHandler(handler)
    logger.info("reading")
    try:
        raise ValueError("x")
    except ValueError:
        logger.exception("broken")
    stream.write("plain\n")

    text = stream.getvalue()
    letters = levels_of(text)
    lines = text.split("\n")
    assert letters[0] == "i"
    assert letters[1 : lines.index("plain")] == "e" * (lines.index("plain") - 1)
    assert letters[lines.index("plain") :] == "--"


def test_a_text_without_levels_has_no_level_letters() -> None:
    assert levels_of("one\ntwo\n") == levels_of(None) == ""


def test_a_level_filter_includes_more_severe_levels() -> None:
    assert [level for level in LEVELS if is_at_least(level[0], "warning")] == ["warning", "error", "critical"]
    assert not is_at_least("-", "debug")
