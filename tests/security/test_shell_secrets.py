"""Attack: reading a secret of a shell task from the list of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.operations.embedded import RunResult, run
from tests.engine_script import playbook

SECRET = "correct-horse-battery"
# what `ps` shows to everybody: the command lines of all programs
LISTS_ALL = "for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$file 2>/dev/null; echo; done >FILE"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_API_KEY", SECRET)


def ran(task: str) -> RunResult:
    text = (
        "keychain: [{name: api, kind: env, var: ORDERS_API_KEY}]\nworkflow:\n  - step: start\n    tool: [" + task + "]"
    )
    return run(playbook(text), db=":memory:", allow=["shell", "script"])


@pytest.mark.req("KEY-06")
def test_a_shell_command_shows_no_secret_on_any_command_line(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = 'test "{{ keychain.api }}" = "$EXPECTED" && ' + LISTS_ALL.replace("FILE", str(seen))
    result = ran(f"{{name: a, kind: shell, cmds: {_quoted(command)}, env: {{EXPECTED: '{{{{ keychain.api }}}}'}}}}")

    assert result.ok, result.error
    shown = seen.read_text()
    assert "_noetl_text" in shown, "it has looked at the very command"
    assert SECRET not in shown


@pytest.mark.req("KEY-06")
def test_programs_started_by_the_command_do_not_inherit_the_secret() -> None:
    result = ran("{name: a, kind: shell, cmds: 'true {{ keychain.api }}; env'}")

    assert result.ok
    assert "NOETL_COMMAND" not in result.result["stdout"]
    assert "***" not in result.result["stdout"]


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    "task",
    [
        "{name: a, kind: shell, cmds: [echo, '{{ keychain.api }}']}",
        "{name: a, kind: script, code: 'echo $1', args: ['{{ keychain.api }}']}",
    ],
)
def test_a_secret_as_a_program_argument_is_refused_with_the_alternative(task: str) -> None:
    result = ran(task)

    assert result.error is not None
    assert result.error.kind == "shell.input"
    assert "pass it in env or stdin" in result.error.message
    assert SECRET not in repr(result)


def _quoted(text: str) -> Any:
    return "'" + text.replace("'", "''") + "'"
