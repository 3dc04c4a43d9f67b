"""The command itself: found quickly, ending in stable codes, never with a traceback for what a user did."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from textwrap import dedent
from typing import Any

import click
import pytest

from noetl.base.errors import BackendError, NoetlError, PlaybookError
from noetl.cli import main as entry
from noetl.cli.main import noetl
from tests.cli.running import FIXTURES, call, process

HEAVY = (
    "yaml",
    "jinja2",
    "rich",
    "sqlite3",
    "noetl.language.reading",
    "noetl.language.compiling",
    "noetl.language.checking",
)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("check", "--help"), ("run", "--help")])
def test_help_imports_nothing_that_only_a_run_needs(arguments: tuple[str, ...]) -> None:
    """A command line that answers at once is used; one that loads a template engine to print help is not."""
    code = (
        "import sys\nfrom noetl.cli.main import run\n"
        f"run({list(arguments)!r})\n"
        f"print('IMPORTED', [m for m in {HEAVY!r} if m in sys.modules])"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.splitlines()[-1] == "IMPORTED []"


def command_of(name: str) -> click.Command:
    found = entry.noetl.get_command(click.Context(entry.noetl), name)
    assert found is not None
    return found


def test_every_listed_command_exists_with_its_own_help() -> None:
    code, shown, _ = call("--help")

    assert code == 0
    for name, words in entry.COMMANDS.items():
        command = command_of(name)
        assert isinstance(command, click.Command)
        assert command.help
        assert name in shown
        assert words in shown


@pytest.mark.parametrize("name", entry.COMMANDS)
def test_help_of_a_command_explains_every_option(name: str) -> None:
    code, shown, _ = call(name, "--help")
    undocumented = [
        option.name for option in command_of(name).params if isinstance(option, click.Option) and not option.help
    ]

    assert code == 0
    assert f"noetl {name}" in shown
    assert undocumented == []


def test_version_prints_the_package_version() -> None:
    assert call("--version") == (0, f"noetl {version('noetl-engine')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vaildate",), 'no command "vaildate"; did you mean "validate"?'),
        (("frobnicate",), 'no command "frobnicate"'),
        (("backup",), 'no command "backup"; did you mean "db backup"?'),
        (("ls",), 'no command "ls"; did you mean "executions"?'),
        (("help",), 'no command "help"; write noetl --help'),
        (("start",), 'no command "start"; did you mean "run", or "server start"?'),
        (("check", "--frob", "x"), "No such option"),
        (("check",), "Missing argument"),
        (("check", "-o", "xml", "x"), "not one of"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_mistake(arguments: tuple[str, ...], words: str) -> None:
    code, _, error = call(*arguments)

    assert code == 2
    assert words in error


def while_a_class_is_made() -> RuntimeError:
    """What an interrupt comes out as then, before Python 3.12."""
    problem = RuntimeError("Error calling __set_name__ on 'cached_property' instance")
    problem.__cause__ = KeyboardInterrupt()
    return problem


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (PlaybookError("it cannot run"), 3, "error: it cannot run"),
        (BackendError("no such store"), 4, "error: no such store"),
        (NoetlError("something else"), 1, "error: something else"),
        (OSError(28, "No space left on device"), 4, "error: No space left on device; free some space, and try again"),
        (
            PermissionError(13, "Permission denied", "shop"),
            4,
            "error: shop: Permission denied; change its permissions, or name another place",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (while_a_class_is_made(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("like this"), 2, "like this"),
    ],
)
def test_every_known_outcome_has_its_exit_code(
    raised: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ends(**_: object) -> None:
        raise raised

    monkeypatch.setattr(entry.noetl, "main", ends)

    assert entry.run([]) == code
    assert words in capsys.readouterr().err


def test_an_internal_error_is_not_treated_as_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(**_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(entry.noetl, "main", ends)

    with pytest.raises(RuntimeError, match="ours"):
        entry.run([])


def test_a_closed_pipe_is_not_reported_as_a_failure() -> None:
    """`noetl check . | head -1` prints one line and nothing else."""
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "noetl.cli.main", "schema"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)

    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command(shell: str) -> None:
    code, script, _ = call("completion", shell)

    assert code == 0
    assert "_NOETL_COMPLETE" in script


def test_completion_knows_commands_and_options() -> None:
    asked = {"_NOETL_COMPLETE": "bash_complete", "COMP_WORDS": "noetl ch", "COMP_CWORD": "1"}
    assert process(**asked).stdout.split() == ["plain,check"]

    asked |= {"COMP_WORDS": "noetl check --str", "COMP_CWORD": "2"}
    assert process(**asked).stdout.split() == ["plain,--strict"]


@pytest.mark.parametrize(
    ("environment", "option", "colored"),
    [
        ({}, "auto", False),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_terminal(
    environment: dict[str, str], option: str, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    _, shown, _ = call("check", "--color", option, str(FIXTURES / "F-000-A.yaml"))

    assert ("\x1b[" in shown) is colored


def commands(group: click.Group = noetl, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path}{name} ")
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield path + name, found


def names_read(function: Any) -> set[str]:
    """The names that a function reads; "**" where it hands on whatever else it was given."""
    (definition,) = ast.parse(dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(definition, ast.FunctionDef)
    read = {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    rest = definition.args.kwarg
    return read | {"**"} if rest is not None and rest.arg in read else read


@pytest.mark.parametrize(("path", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_every_parameter_of_a_command_is_read(path: str, command: click.Command) -> None:
    read = names_read(command.callback)

    ignored = [one.name for one in command.params if one.expose_value and one.name not in read and "**" not in read]

    assert ignored == [], f"noetl {path} takes them and does nothing with them"
