"""Formatting is a matter of looks: it is idempotent, and the net behind a playbook keeps its hash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.language.formatting.formatter import format_text
from noetl.net.net import Net, content_hash
from noetl.operations.example_files import example_files
from noetl.tools.kinds import KINDS

TESTS = Path(__file__).parents[1]
PLAYBOOKS = sorted(
    [
        *(TESTS / "fixtures").glob("*.yaml"),
        *(TESTS / "conventions" / "playbooks").glob("*.yaml"),
        *(TESTS / "golden" / "check" / "ok").glob("*.yaml"),
        *(one.file for one in example_files()),
    ]
)


def net_of(text: str) -> Net | None:
    return check(Source("playbook.yaml", text), kinds=KINDS, proofs=False).net


def assert_only_looks_change(text: str) -> None:
    formatted = format_text(Source("playbook.yaml", text))

    assert format_text(Source("playbook.yaml", formatted)) == formatted
    before, after = net_of(text), net_of(formatted)
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert content_hash(after) == content_hash(before)


def checked_playbooks() -> list[Path]:
    return [path for path in PLAYBOOKS if net_of(path.read_text()) is not None]


READABLE = [path for path in PLAYBOOKS if path.stem != "v10_merge_key_refused"]  # that one is no YAML for us


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_formatting_a_playbook_keeps_its_net(path: Path) -> None:
    assert_only_looks_change(path.read_text())


@given(
    path=st.deferred(lambda: st.sampled_from(checked_playbooks())),
    rounds=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["# why", "", "   ", "#"])), max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_comments_and_blank_lines_anywhere_keep_the_net(path: Path, rounds: list[tuple[int, str]]) -> None:
    """Inside a block text a comment is text, so lines are only added before a step."""
    lines = path.read_text().split("\n")
    for where, line in rounds:
        starts = [index for index, text in enumerate(lines) if text.startswith("  - step:")] or [0]
        lines.insert(starts[where % len(starts)], line)

    assert_only_looks_change("\n".join(lines))
