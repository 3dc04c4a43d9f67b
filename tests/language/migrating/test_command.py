"""`noetl migrate`: what goes where, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl.cli.migrate import command
from tests.language.migrating.migrated import HEAD, compiled, fixture

pytestmark = pytest.mark.req("CLI-03", "MIG-03")


def write(folder: Path, text: str) -> Path:
    path = folder / "playbook.yaml"
    path.write_text(text)
    return path


def test_the_text_goes_to_standard_output_and_checks_as_v10(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-000-E"))

    result = CliRunner().invoke(command, [str(path)])

    assert result.exit_code == 0
    assert compiled(result.stdout)[0].api_version == "noetl.io/v10"
    assert path.read_text() == fixture("F-000-E")


def test_write_puts_it_into_the_file_once(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-001-D"))

    first = CliRunner().invoke(command, ["--write", str(path)])
    written = path.read_text()
    second = CliRunner().invoke(command, ["--write", str(path)])

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert written.startswith("apiVersion: noetl.io/v10")
    assert path.read_text() == written
    assert "migrated to v10" in first.stderr
    assert second.stderr == ""
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_migrated_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-002-C"))

    result = CliRunner().invoke(command, ["--write", str(path)])

    assert result.exit_code == 1
    assert path.read_text() == fixture("F-002-C")
    assert result.stdout == ""
    assert f"{path}:9:7: not migrated: eval_mode: on_event" in result.stderr
    assert "help: write wait blocks" in result.stderr


def test_force_writes_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-002-C"))

    result = CliRunner().invoke(command, ["--write", "--force", str(path)])

    assert result.exit_code == 1
    assert path.read_text().startswith("apiVersion: noetl.io/v10")


def test_an_invalid_playbook_is_not_touched(tmp_path: Path) -> None:
    text = HEAD + "workflow: [{step: start, next: nowhere}]\n"
    path = write(tmp_path, text)

    result = CliRunner().invoke(command, ["--write", str(path)])

    assert result.exit_code == 3
    assert "E_NEXT_REF" in result.stderr
    assert path.read_text() == text


def test_a_diff_shows_what_would_change(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-001-D"))

    result = CliRunner().invoke(command, ["-o", "diff", str(path)])

    assert "-apiVersion: noetl.io/v2" in result.stdout
    assert "+apiVersion: noetl.io/v10" in result.stdout
