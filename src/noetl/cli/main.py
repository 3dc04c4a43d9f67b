"""The command `noetl`: finds the subcommand, imports only its module, and turns errors into exit codes (design.md §6).

The table has the one-line help of every command, so that `noetl --help` imports none of their modules.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc

# 130 is the exit code of shells for Ctrl-C (128 and the number of the signal).
INVALID, REFUSED, INTERRUPTED = 3, 4, 130

# Imports leave no garbage cycles, and searching for them takes a twelfth of a short command's time.
_looked = gc.isenabled()
gc.disable()
try:
    import click

    from noetl.base.errors import BackendError, NoetlError, PlaybookError, RefusedError, system_error_text
    from noetl.cli.own_process import collection_paused
    from noetl.cli.terminal import color_option
# Most of the first 0.1 s is spent in these imports, so Ctrl-C may arrive here.
except KeyboardInterrupt:
    raise SystemExit(INTERRUPTED) from None
# Python 3.11 wraps an interrupt during the creation of a class in a RuntimeError.
except RuntimeError as problem:
    if not isinstance(problem.__cause__, KeyboardInterrupt):
        raise
    raise SystemExit(INTERRUPTED) from None
finally:
    if _looked:
        gc.enable()

# In the order in which users need them; `noetl --help` shows each group under its heading.
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
    **dict.fromkeys(("executions", "result", "ctx", "pause", "resume", "cancel", "timer"), "executions"),
    **dict.fromkeys(("status", "explain", "inputs", "compare", "replay"), "status"),
    **dict.fromkeys(("events", "logs"), "history"),
    **dict.fromkeys(("message", "signal", "event"), "messages"),
    **dict.fromkeys(("limit", "pool"), "limits"),
    **dict.fromkeys(("config", "context", "login"), "config"),
    **dict.fromkeys(("token", "audit"), "access"),
}
ALIASES = {"validate": "check"}
# Words from other tools whose nearest command would be a wrong suggestion.
ELSEWHERE = {
    "start": 'did you mean "run", or "server start"?',
    "stop": 'did you mean "cancel", or "server stop"?',
    **dict.fromkeys(("list", "ls", "ps", "runs", "history"), 'did you mean "executions"?'),
    **dict.fromkeys(("lint", "verify"), 'did you mean "check"?'),
    **dict.fromkeys(("secret", "secrets"), 'did you mean "credential"?'),
    **dict.fromkeys(("deploy", "apply"), 'did you mean "register"?'),
    **dict.fromkeys(("serve", "ui", "up"), 'did you mean "dev"?'),
    **dict.fromkeys(("approve", "inbox"), 'did you mean "task"?'),
    **{word: f'did you mean "task {word}"?' for word in ("claim", "complete")},
    "retry": 'did you mean "rerun"?',
    "new": 'did you mean "init"?',
    "cron": 'did you mean "schedule"?',
    **{word: f"write noetl --{word}" for word in ("help", "version")},
}


# Command lines for each command, at the end of its help and in docs/cli.md. Commands with a longer example have it
# in their own help. A test parses every example.
EXAMPLES = {
    "examples list": "noetl examples list",
    "examples show": "noetl examples show hello",
    "examples copy": "noetl examples copy fan_out playbooks",
    "run": "noetl run orders.yaml --set n=3 --payload @inputs.json\n"
    "noetl run etl/orders --server prod --detach\n"
    "noetl run orders.yaml --step load --like last\n"
    "noetl run --resume last",
    "register": "noetl register orders.yaml\nnoetl register playbooks --server prod --strict",
    "status": "noetl status last",
    "events": "noetl events last --follow --type 'step.*'",
    "logs": "noetl logs last --level warning\nnoetl logs last --step fetch --follow",
    "result": "noetl result last --step fetch",
    "ctx": "noetl ctx last",
    "explain": "noetl explain last",
    "compare": "noetl compare 01a1eb77 last",
    "inputs": "noetl inputs last load --attempt 2",
    "replay": "noetl replay last --until 12",
    "rerun": "noetl rerun last --from fetch --set n=5\nnoetl rerun last --failed-items",
    "pause": 'noetl pause last --reason "the source is down"',
    "resume": "noetl resume last",
    "cancel": "noetl cancel last --compensate",
    "task show": "noetl task show 0198c0de",
    "task release": "noetl task release 0198c0de",
    "timer list": "noetl timer list last",
    "limit list": "noetl limit list last",
    "schedule list": "noetl schedule list",
    "schedule next": "noetl schedule next etl/nightly -n 3",
    "schedule pause": "noetl schedule pause etl/nightly",
    "schedule resume": "noetl schedule resume etl/nightly",
    "trigger list": "noetl trigger list",
    "trigger show": "noetl trigger show drop",
    "trigger pause": "noetl trigger pause drop",
    "trigger resume": "noetl trigger resume drop",
    "trigger delete": "noetl trigger delete drop",
    "trigger dead-letters": "noetl trigger dead-letters drop",
    "trigger retry": "noetl trigger retry drop",
    "trigger discard": "noetl trigger discard drop",
    "check": "noetl check orders.yaml\nnoetl check playbooks --strict -o github",
    "fmt": "noetl fmt orders.yaml --check",
    "graph": "noetl graph orders.yaml -o mermaid",
    "migrate": "noetl migrate old.yaml --write",
    "compile": "noetl compile orders.yaml",
    "analyze": "noetl analyze orders.yaml",
    "schema": "noetl schema > noetl.schema.json",
    "catalog list": "noetl catalog list",
    "catalog versions": "noetl catalog versions etl/nightly",
    "catalog show": "noetl catalog show etl/nightly --version 2",
    "credential list": "noetl credential list",
    "credential delete": "noetl credential delete openai_token",
    "credential rotate": "noetl credential rotate",
    "dev": "noetl dev --port 8082",
    "server start": "noetl server start --db postgresql://db/noetl --port 8082",
    "server status": "noetl server status",
    "server stop": "noetl server stop",
    "worker start": "noetl worker start --server prod --pool gpu --concurrency 2",
    "worker status": "noetl worker status",
    "worker list": "noetl worker list --server prod",
    "worker drain": "noetl worker drain 3f9c0d21/etl-1 --server prod",
    "worker resume": "noetl worker resume 3f9c0d21/etl-1 --server prod",
    "worker stop": "noetl worker stop",
    "pool list": "noetl pool list --server prod",
    "pool set": "noetl pool set gpu --capacity 4 --rate 100/1m",
    "context list": "noetl context list",
    "context add": "noetl context add prod https://noetl.example.org --use",
    "context use": "noetl context use prod",
    "context remove": "noetl context remove prod",
    "config show": "noetl config show --origin",
    "config path": "noetl config path",
    "doctor": "noetl doctor",
    "token create": "noetl token create ann --role operator --human-role approver --expires 90d",
    "token list": "noetl token list",
    "token revoke": "noetl token revoke 4f0c",
    "notification list": "noetl notification list --state dead",
    "notification show": "noetl notification show 3f2a9c0d",
    "notification test": "noetl notification test ops --server prod",
    "notification rule list": "noetl notification rule list",
    "notification rule delete": "noetl notification rule delete ops",
    "webhook create": "noetl webhook create paid --message order.paid --match order=order.id",
    "webhook list": "noetl webhook list",
    "webhook delete": "noetl webhook delete paid",
    "audit list": "noetl audit list -n 20",
    "audit verify": "noetl audit verify",
    "db backup": "noetl db backup noetl-monday.tar.gz",
    "db restore": "noetl db restore noetl-monday.tar.gz --db restored.db",
    "db check": "noetl db check",
    "db migrate": "noetl db migrate --plan --db postgresql://db/noetl",
    "db rebuild": "noetl db rebuild",
    "db retention": "noetl db retention --days 90",
}


def with_examples(command: click.Command, name: str) -> click.Command:
    """The command with its example in its help, and the same for its subcommands."""
    if isinstance(command, click.Group):
        for under, other in command.commands.items():
            with_examples(other, f"{name} {under}")
    elif (example := EXAMPLES.get(name)) is not None and command.help and not command.help.endswith(example):
        command.help = f"{cleandoc(command.help)}\n\n\b\n{example}"
    return command


class Verbs(click.Group):
    """A group that imports the module of a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        with collection_paused():
            module = import_module(f"noetl.cli.{MODULES.get(name, name)}")
        command = getattr(module, f"{name}_command" if name in MODULES else "command")
        assert isinstance(command, click.Command)
        # Added here, not where commands are declared: one table shows which command has no example.
        return with_examples(command, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments that are not UTF-8, since stores cannot keep them; names of existing files may be any
        bytes."""
        for number, argument in enumerate(args, 1):
            if not (argument.isascii() or _is_text(argument) or os.path.lexists(argument)):
                ctx.fail(f"argument {number} is not UTF-8 text: {os.fsencode(argument)!r}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0]) if args else ""
        if name and not name.startswith("-") and name not in (*COMMANDS, *ALIASES):
            from difflib import get_close_matches

            close = get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
            # Only the groups of one or two commands of this name are meant by it: many have a `list`.
            under = [whole for whole in EXAMPLES if whole.endswith(f" {name}")]
            if under and len(under) <= 2:
                close = ['" or "'.join(under)]
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


def _is_text(argument: str) -> bool:
    from noetl.base.diagnostics import is_unicode

    return is_unicode(argument)


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
    """Run workflows that you write in YAML: checked before a run, continued after a crash.

    To begin, type `noetl init my-project`, or choose one of `noetl examples list`. `noetl COMMAND --help` shows the
    options of a command with examples; `noetl dev` serves the documentation at /docs.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        code = noetl.main(args=arguments, prog_name="noetl", standalone_mode=False)
    except click.ClickException as error:
        _with_allowed_numbers(_with_commands_of_group(error)).show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _exit_interrupted()
    except RuntimeError as problem:
        # Python 3.11 wraps an interrupt during the creation of a class, in some import.
        if isinstance(problem.__cause__, KeyboardInterrupt):
            return _exit_interrupted()
        raise
    except (NoetlError, OSError) as error:
        words = system_error_text(error) if isinstance(error, OSError) else str(error)
        click.echo(f"error: {words}", err=True)
        return _code_of(error)
    return code if isinstance(code, int) else 0


def _with_commands_of_group(error: click.ClickException) -> click.ClickException:
    """The error for an unknown command of a group names the nearest one, or all: `delete` is not close to `revoke`."""
    if not isinstance(error, click.exceptions.NoSuchCommand) or error.ctx is None:
        return error
    group = error.ctx.command
    if not isinstance(group, click.Group):
        return error
    from difflib import get_close_matches

    whole = f"{error.ctx.command_path} {error.command_name}".removeprefix("noetl ")
    known = sorted(group.commands)
    if close := get_close_matches(error.command_name, known, n=1, cutoff=0.7):
        way = f'did you mean "{close[0]}"?'
    else:
        way = f"{'there is' if len(known) == 1 else 'there are'} {', '.join(known)}"
    return click.UsageError(f'no command "{whole}"; {way}', error.ctx)


_REFUSED_NUMBER = re.compile(r"""['"]?(.*?)['"]? is not (?:a valid (?:integer|float)|in the range)""", re.DOTALL)


def _with_allowed_numbers(error: click.ClickException) -> click.ClickException:
    """The error for a number says which numbers are allowed: click calls them a valid integer range."""
    if not isinstance(error, click.BadParameter) or error.param is None:
        return error
    kind = error.param.type
    refused = _REFUSED_NUMBER.match(error.message)
    if refused is None or not isinstance(kind, (type(click.INT), type(click.FLOAT))):
        return error
    number = "whole number" if isinstance(kind, type(click.INT)) else "number"
    match getattr(kind, "min", None), getattr(kind, "max", None):
        case None, None:
            which = ""
        case least, None:
            which = f" of at least {least}"
        case None, most:
            which = f" of at most {most}"
        case least, most:
            which = f" from {least} to {most}"
    return click.BadParameter(f'"{refused[1]}" is not a {number}{which}', error.ctx, error.param, error.param_hint)


def _exit_interrupted() -> int:
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
    # The interpreter collects garbage once more at its end, which takes a twentieth of a short command.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
