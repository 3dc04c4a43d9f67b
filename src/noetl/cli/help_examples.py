"""Examples: one command line for each command, shown at the end of its help and in docs/cli.md.

Commands whose help needs a longer example have it there; the others have theirs here. A test parses every one of them.
"""

from __future__ import annotations

from inspect import cleandoc

import click

EXAMPLES = {
    "examples list": "noetl examples list",
    "examples show": "noetl examples show hello",
    "examples copy": "noetl examples copy fan_out playbooks",
    "run": "noetl run orders.yaml --set n=3 --payload @inputs.json",
    "register": "noetl register playbooks/*.yaml --server prod",
    "status": "noetl status last",
    "events": "noetl events last --follow --type 'step.*'",
    "logs": "noetl logs last --step fetch --follow",
    "result": "noetl result last --step fetch",
    "ctx": "noetl ctx last",
    "explain": "noetl explain last",
    "compare": "noetl compare 01a1eb77 last",
    "inputs": "noetl inputs last load --attempt 2",
    "replay": "noetl replay last --until 12",
    "rerun": "noetl rerun last --from fetch --set n=5",
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
    "check": "noetl check playbooks --strict",
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
    """The command, with the examples of it and of those under it in their help."""
    if isinstance(command, click.Group):
        for under, other in command.commands.items():
            with_examples(other, f"{name} {under}")
    elif (example := EXAMPLES.get(name)) is not None and command.help and not command.help.endswith(example):
        command.help = f"{cleandoc(command.help)}\n\n\b\n{example}"
    return command
