"""`noetl fmt`: files are rewritten or only checked; a file with syntax errors stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call

UNTIDY = "kind:   Playbook # k\napiVersion: noetl.io/v10\nworkflow:\n- {step: start}\n"
TIDY = "apiVersion: noetl.io/v10\nkind: Playbook  # k\n\nworkflow:\n  - { step: start }\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_text(UNTIDY)
    return path


def test_a_file_is_rewritten_in_place_once(file: Path) -> None:
    assert call("fmt", "a.yaml") == (0, "", "a.yaml: reformatted\n")
    assert file.read_text() == TIDY
    assert call("fmt", "a.yaml") == (0, "", "")
    assert list(file.parent.iterdir()) == [file]


def test_formatting_keeps_the_file_mode_and_a_symbolic_link(file: Path) -> None:
    file.chmod(0o640)
    link = file.parent / "link.yaml"
    link.symlink_to(file)

    assert call("fmt", "link.yaml")[0] == 0
    assert link.is_symlink()
    assert file.read_text() == TIDY
    assert file.stat().st_mode & 0o777 == 0o640


def test_check_writes_nothing_and_exits_with_1_if_a_file_would_change(file: Path) -> None:
    assert call("fmt", "--check", "a.yaml") == (1, "", "a.yaml: would be reformatted\n")
    assert file.read_text() == UNTIDY

    file.write_text(TIDY)
    assert call("fmt", "--check", "a.yaml") == (0, "", "")


def test_diff_shows_the_changes_and_writes_nothing(file: Path) -> None:
    code, shown, _ = call("fmt", "--diff", "a.yaml")

    assert code == 0
    assert "-- {step: start}\n" in shown
    assert "+  - { step: start }\n" in shown
    assert file.read_text() == UNTIDY
    assert call("fmt", "--check", "--diff", "a.yaml")[0] == 1


def test_standard_input_is_formatted_to_standard_output() -> None:
    assert call("fmt", "-", stdin=UNTIDY) == (0, TIDY, "")
    assert call("fmt", "--check", "-", stdin=TIDY) == (0, "", "")
    assert call("fmt", "--check", "-", stdin=UNTIDY) == (1, "", "")


def test_windows_line_ends_become_line_feeds(file: Path) -> None:
    file.write_bytes(TIDY.replace("\n", "\r\n").encode())

    assert call("fmt", "a.yaml")[0] == 0
    assert file.read_bytes() == TIDY.encode()


def test_an_unreadable_file_is_reported_and_the_other_files_are_formatted(file: Path) -> None:
    bad = file.parent / "bad.yaml"
    bad.write_text("a: 1\na: 2\n")

    code, _, shown = call("fmt", "bad.yaml", "missing.yaml", "a.yaml")

    assert code == 2
    assert "bad.yaml:2:1: error[E_YAML]" in shown
    assert "missing.yaml: there is no such file" in shown
    assert bad.read_text() == "a: 1\na: 2\n"
    assert file.read_text() == TIDY
    assert call("fmt", "bad.yaml")[0] == 1
