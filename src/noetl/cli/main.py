"""The command `noetl`: finds the verb, imports only that verb's module, and turns endings into exit codes (design.md
§6).

The table keeps the one-line help of every command, so that `noetl --help` imports none of their modules.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

# 130 is what shells give for Ctrl-C (128 and the number of the signal).
INVALID, REFUSED, INTERRUPTED = 3, 4, 130

# Until all is loaded there are no cycles to be found, and looking for them takes a twelfth of a short command's time.
_looked = gc.isenabled()
gc.disable()
try:
    import click

    from noetl.base.errors import BackendError, NoetlError, PlaybookError, RefusedError
    from noetl.cli.help_examples import with_examples
    from noetl.cli.own_process import not_looking
    from noetl.cli.terminal import color_option
except KeyboardInterrupt:  # most of the first tenth of a second is spent here
    raise SystemExit(INTERRUPTED) from None
except RuntimeError as problem:  # that is what Python 3.11 makes of it while a class is made
    if not isinstance(problem.__cause__, KeyboardInterrupt):
        raise
    raise SystemExit(INTERRUPTED) from None
finally:
    if _looked:
        gc.enable()

# In the order in which people need them; `noetl --help` shows each group under its heading.
GROUPS = {
    "Author playbooks": {
        "init": "Create a project with a playbook that runs.",
        "examples": "List and copy the playbooks that ship with NoETL.",
        "check": "Check playbooks and prove their nets.",
        "test": "Run the tests of playbooks.",
        "fmt": "Format playbooks.",
        "graph": "Draw a playbook as text, Mermaid, DOT or SVG.",
        "migrate": "Rewrite older dialects as v10.",
        "compile": "Print the net that a playbook compiles to.",
        "analyze": "Show what can be proved about a playbook's net.",
        "schema": "Print the JSON Schema of playbooks.",
        "tools": "List the tool kinds and their packages.",
    },
    "Run playbooks": {
        "run": "Run a playbook in this process or on a server.",
        "register": "Register playbooks in the catalogue.",
        "catalog": "Show registered playbooks and their versions.",
        "rerun": "Run a finished execution again.",
        "schedule": "List, pause, resume and backfill schedules.",
        "trigger": "Start playbooks when something new arrives.",
    },
    "Look at executions": {
        "executions": "List executions.",
        "watch": "Follow an execution until it ends.",
        "status": "Show the state of an execution.",
        "events": "Print the events of an execution.",
        "logs": "Print the output of an execution's tasks.",
        "result": "Print the result of an execution or of a step.",
        "ctx": "Print the variables of an execution.",
        "explain": "Explain why an execution is in its state.",
        "inputs": "Show what an attempt of a step was given.",
        "compare": "Show what differs between two executions.",
        "replay": "Replay an execution from its log.",
    },
    "Steer executions": {
        "pause": "Pause an execution.",
        "resume": "Resume a paused execution.",
        "cancel": "Cancel an execution.",
        "message": "Send a message to the step that waits for it.",
        "signal": "Send a signal to all steps that wait for it.",
        "event": "Send an event to the handlers of an execution.",
        "task": "List, claim and complete human tasks.",
        "timer": "List and cancel timers.",
        "limit": "Show limits, and change them while executions run.",
    },
    "Operate servers": {
        "dev": "Run server, worker and web UI on one port.",
        "server": "Run a server.",
        "worker": "Run a worker of a server.",
        "pool": "Show and limit pools of workers.",
        "doctor": "Find problems of this installation.",
        "db": "Migrate, check and rebuild a store.",
    },
    "Administer": {
        "context": "Name servers, and choose one.",
        "login": "Save a server's token for later commands.",
        "config": "Show the settings and where each comes from.",
        "credential": "Store encrypted credentials for playbooks.",
        "token": "Create, list and revoke tokens of a server.",
        "notification": "Show notices and dead letters, and set rules for them.",
        "webhook": "Let other systems start playbooks and send messages.",
        "audit": "Read the audit log and verify it.",
        "completion": "Print a completion script for your shell.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
# Every command has a module of its name, with a click `command`. These share one with others about the same thing;
# there each is called by its name, such as `pause_command`.
MODULES = {
    **dict.fromkeys(("init", "examples", "register", "catalog"), "playbooks"),
    **dict.fromkeys(("check", "fmt", "test"), "authoring"),
    **dict.fromkeys(("compile", "analyze", "graph", "schema"), "nets"),
    **dict.fromkeys(("run", "rerun"), "run"),
    **dict.fromkeys(("trigger", "webhook"), "triggers"),
    **dict.fromkeys(("executions", "result", "ctx"), "executions"),
    **dict.fromkeys(("status", "explain", "inputs", "compare", "replay"), "status"),
    **dict.fromkeys(("events", "logs"), "history"),
    **dict.fromkeys(("pause", "resume", "cancel", "timer"), "control"),
    **dict.fromkeys(("message", "signal", "event"), "messages"),
    **dict.fromkeys(("limit", "pool"), "limits"),
    **dict.fromkeys(("config", "context", "login"), "config"),
    **dict.fromkeys(("token", "audit"), "access"),
}
ALIASES = {"validate": "check"}
# Words of other tools, for which the nearest command would be a wrong guess.
ELSEWHERE = {
    "start": 'did you mean "run", or "server start"?',
}


class Verbs(click.Group):
    """A group that imports a command when it is called for, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        with not_looking():
            module = import_module(f"noetl.cli.{MODULES.get(name, name)}")
        command = getattr(module, f"{name}_command" if name in MODULES else "command")
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
            guess = f'did you mean "{close[0]}"?' if close else ""
            way = ELSEWHERE.get(name, guess)
            ctx.fail(f'no command "{name}"' + (f"; {way}" if way else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # One column for all groups, so that the texts line up.
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def _is_text(given: str) -> bool:
    from noetl.base.source import is_unicode

    return is_unicode(given)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from noetl.base.distribution import own_version

        click.echo(f"noetl {own_version()}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
@color_option
def noetl() -> None:
    """Run workflows that you write in YAML: checked before a run, continued after a crash."""


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
    from noetl.cli import own_process

    own_process.is_own_process = True
    code = run()
    # The interpreter looks for cycles once more before it ends, which is a twentieth of a short command.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
