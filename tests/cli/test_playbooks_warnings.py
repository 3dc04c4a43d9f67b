"""Warnings where people are: `run` and `register` say what `check` says, and refuse it with --strict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import call

WARNED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: n, path: jobs/warned}
workflow:
  - step: start
    owner: me
    tool: {kind: noop, args: {n: 1}}
"""
CLEAN = WARNED.replace("    owner: me\n", "")
OLDER = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: n, path: jobs/older}
workflow:
  - step: start
    tool: {kind: noop, args: {n: 7}}
    vars: {n: "{{ result.n }}"}
    next: end
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(WARNED)
    return path


@pytest.mark.req("VAL-19", "DOC-10")
@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_run_shows_warnings_with_their_place_even_with_quiet(file: Path, quiet: tuple[str, ...]) -> None:
    code, _, err = call("run", str(file), "--memory", *quiet)

    assert code == 0
    assert f'{file}:6:5: warning[W_UNKNOWN_KEY]: "owner" is not a key of a step and is ignored' in err


@pytest.mark.req("VAL-19")
def test_a_run_of_a_clean_playbook_prints_no_warning(file: Path) -> None:
    file.write_text(CLEAN)

    assert call("run", str(file), "--memory", "-q")[2] == ""


@pytest.mark.req("VAL-19")
def test_a_run_warns_about_steps_that_no_token_can_reach(file: Path) -> None:
    file.write_text(f"{CLEAN}  - step: load\n    tool: {{kind: noop}}\n")

    assert (
        'warning[W_UNREACHABLE]: step "load" never runs: no token can reach it'
        in call("run", str(file), "--memory", "-q")[2]
    )


@pytest.mark.req("VAL-19")
def test_json_output_contains_the_warnings(file: Path) -> None:
    code, out, _ = call("run", str(file), "--memory", "-o", "json")

    assert code == 0
    assert [(found["code"], found["line"]) for found in json.loads(out)["diagnostics"]] == [("W_UNKNOWN_KEY", 6)]


@pytest.mark.req("VAL-19", "SRV-10")
def test_registering_shows_warnings_and_registers(file: Path, tmp_path: Path) -> None:
    code, out, err = call("register", str(file), "--db", str(tmp_path / "s.db"))

    assert (code, out) == (0, "jobs/warned version 1\n")
    assert f"{file}:6:5: warning[W_UNKNOWN_KEY]" in err


@pytest.mark.req("VAL-19", "DOC-10")
@pytest.mark.parametrize("command", [("run", "--memory"), ("register",), ("check",)])
def test_strict_refuses_a_playbook_with_warnings(
    command: tuple[str, ...], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_DB", str(tmp_path / "s.db"))
    file.write_text(CLEAN.replace("kind: noop, args: {n: 1}", 'kind: postgres, auth: pg, command: "SELECT {{ x }}"'))
    name, *options = command

    assert call(name, str(file), "--strict", *options)[0] != 0
    assert not (tmp_path / "s.db").exists()


@pytest.mark.req("VAL-19")
def test_a_setting_enables_strict(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_STRICT", "true")

    assert call("run", str(file), "--memory", "-q")[0] == 3


@pytest.mark.req("MIG-05")
def test_a_run_migrates_in_memory_and_reports_it(file: Path) -> None:
    file.write_text(OLDER)

    code, out, err = call("run", str(file), "--memory", "-o", "json", "--migrate")

    assert (code, json.loads(out)["ctx"]) == (0, {"n": 7})
    assert f"{file}: read as v10 (migrated in memory; the file is unchanged)" in err
    assert file.read_text() == OLDER


@pytest.mark.req("MIG-05", "SRV-10")
def test_register_with_migrate_stores_the_v10_text(file: Path, tmp_path: Path) -> None:
    file.write_text(OLDER)

    assert call("register", str(file), "--migrate", "--db", str(tmp_path / "s.db"))[0] == 0

    shown = call("catalog", "show", "jobs/older", "--db", str(tmp_path / "s.db"))
    assert "noetl.io/v10" in shown[1]
