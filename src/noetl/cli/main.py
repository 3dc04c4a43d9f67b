"""The command `noetl`: finds the verb, imports only that verb's module, and turns endings into exit codes (DESIGN §6).

Every verb is a module of this room with a click `command`. The table keeps their one-line help, so that
`noetl --help` imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

INVALID, REFUSED, INTERRUPTED = 3, 4, 130

try:
    import click

    from noetl.base.errors import BackendError, NoetlError, PlaybookError, RefusedError
    from noetl.cli.help_examples import with_examples
    from noetl.cli.terminal import color_option
except KeyboardInterrupt:  # most of the first tenth of a second is spent here
    raise SystemExit(INTERRUPTED) from None
except RuntimeError as problem:  # that is what Python 3.11 makes of it while a class is made
    if not isinstance(problem.__cause__, KeyboardInterrupt):
        raise
    raise SystemExit(INTERRUPTED) from None

COMMANDS = {
    "init": "Make a project with a playbook that runs.",
    "examples": "List and copy playbooks that ship with NoETL.",
    "run": "Run a playbook here.",
    "register": "Put playbooks into the catalogue.",
    "executions": "List what has been run.",
    "watch": "Follow an execution to its end.",
    "status": "Show where an execution stands.",
    "events": "Print the events of an execution.",
    "logs": "Print what the tasks of an execution printed.",
    "result": "Print the result of an execution or of a step.",
    "ctx": "Print the variables of an execution.",
    "explain": "Say why an execution is where it is.",
    "replay": "Tell an execution anew from its log.",
    "rerun": "Run again what an execution ran.",
    "pause": "Pause an execution.",
    "resume": "Go on with a paused execution.",
    "cancel": "End an execution before its time.",
    "message": "Send a message to whoever waits for it.",
    "signal": "Send a signal to everybody who listens.",
    "event": "Put an event into an execution.",
    "task": "List, claim and complete human tasks.",
    "timer": "List timers and cancel them.",
    "limit": "Show limits and change them while executions run.",
    "schedule": "Look at schedules, pause and backfill them.",
    "check": "Check playbooks and prove their nets.",
    "fmt": "Format playbooks.",
    "graph": "Draw a playbook as text, Mermaid, DOT or SVG.",
    "migrate": "Rewrite older dialects as v10.",
    "compile": "Show the net a playbook compiles to.",
    "analyze": "Show what can be proved about a playbook's net.",
    "schema": "Print the JSON Schema of playbooks.",
    "catalog": "Show registered playbooks and their versions.",
    "credential": "Store credentials for playbooks, sealed.",
    "dev": "Run everything here, on one port.",
    "server": "Run a server.",
    "worker": "Run workers of a server.",
    "pool": "Show and limit pools of workers.",
    "context": "Name servers, and choose one.",
    "login": "Keep a server's token for later commands.",
    "config": "Show the settings that hold, and where they come from.",
    "doctor": "Look for what is wrong here.",
    "token": "Make, list and revoke tokens of a server.",
    "webhook": "Let other systems start playbooks and send messages.",
    "audit": "Read the audit log and check that it is whole.",
    "db": "Look after a store: migrate, check, rebuild.",
    "tools": "List the tool kinds, and where they come from.",
    "completion": "Print a shell's completion script.",
}
ALIASES = {"validate": "check"}


class Verbs(click.Group):
    """A group that imports a command when it is called for, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command = import_module(f"noetl.cli.{name}").command
        assert isinstance(command, click.Command)
        return with_examples(command, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Names and values are kept as UTF-8, so bytes that are none go no further; files may be called anything."""
        for number, given in enumerate(args, 1):
            if not (given.isascii() or _is_text(given) or os.path.lexists(given)):
                ctx.fail(f"argument {number} is not UTF-8 text: {os.fsencode(given)!r}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0]) if args else ""
        if name and not name.startswith("-") and name not in (*COMMANDS, *ALIASES):
            from difflib import get_close_matches

            close = get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
            ctx.fail(f'no command "{name}"' + (f'; did you mean "{close[0]}"?' if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _is_text(given: str) -> bool:
    from noetl.base.source import is_unicode

    return is_unicode(given)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"noetl {version('noetl')}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
@color_option
def noetl() -> None:
    """Workflows as Petri nets, written in YAML, kept in an event log."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and say how it ended. A reader that has gone (`noetl check . | head`) ends it quietly."""
    try:
        code = noetl.main(args=arguments, prog_name="noetl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except RuntimeError as problem:
        if isinstance(problem.__cause__, KeyboardInterrupt):  # while a class was made, in some import
            return _interrupted()
        raise
    except (NoetlError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        return _code_of(error)
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    click.echo("interrupted", err=True)
    return INTERRUPTED


def _code_of(error: Exception) -> int:
    match error:
        case PlaybookError():
            return INVALID
        case BackendError() | RefusedError() | OSError():
            return REFUSED
        case _:
            return 1


def main() -> None:
    """Entry point of the installed command."""
    from noetl.cli import protection

    protection.is_own_process = True
    sys.exit(run())


if __name__ == "__main__":
    main()
