"""Kinds that run what the author wrote (python, shell, script, container), or call something NoETL manages (playbooks,
workbook tasks, secrets)."""

from __future__ import annotations

from noetl.net.kinds import (
    ANYTHING,
    ARGS,
    AUTH,
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    Input,
    ToolKind,
    one_of,
    script_source,
)
from noetl.tools.kinds.sql import ROWS, TABLES

PLAYBOOK = ToolKind(
    name="playbook",
    error_kinds=("playbook.failed",),
    doc="Starts another playbook, waits for it and returns its result.",
    inputs=(
        Input(name="path", schema=TEXT, doc="Catalogue path of the playbook.", required=True, aliases=("playbook",)),
        Input(
            name="version",
            schema={"type": ["string", "number"]},
            doc="Version to start; the newest when left out, or `latest`.",
        ),
        Input(
            name="args",
            schema=OBJECT,
            doc="Payload of the child; it overrides the defaults of its workload.",
            aliases=("payload", "workload", "data", "params", "parameters", "input", "variables"),
        ),
        Input(name="return_step", schema=TEXT, doc="Step of the child whose result is returned.", aliases=("return",)),
    ),
    unwraps=True,
)

WORKBOOK = ToolKind(
    name="workbook",
    doc="Runs a task of the workbook. Keys that stand here override those of that task.",
    inputs=(
        Input(name="task", schema=TEXT, doc="Name of the workbook task; the task's own name when left out."),
        ARGS,
    ),
    open_inputs=True,
)

SECRETS = ToolKind(
    name="secrets",
    error_kinds=("keychain.unresolved",),
    doc="Looks up one secret by name, or renews one keychain entry.",
    inputs=(
        Input(name="op", schema=one_of("get", "refresh"), doc="get when left out."),
        Input(
            name="secret",
            schema=TEXT,
            doc="Name of the secret or keychain entry; the task's own name when left out.",
            required=True,
            from_name=True,
            aliases=("key", "entry", "secret_name"),
        ),
        Input(name="provider", schema=TEXT, doc="Resolver to ask: env, file, secret_manager, …"),
        Input(name="version", schema={"type": ["string", "number"]}, doc="Version of the secret."),
        AUTH,
    ),
    defaults={"timeout": 300},
)

_ENV = Input(name="env", schema=OBJECT, doc="Environment variables.")
_CWD = Input(name="cwd", schema=TEXT, doc="Folder to run in.")
_STDIN = Input(name="stdin", schema=TEXT, doc="Text given on standard input.")
_OK_EXIT_CODES = Input(
    name="ok_exit_codes",
    schema={"type": "array", "items": {"type": "integer"}},
    doc="Further exit codes that count as success.",
)
_ISOLATION = Input(
    name="isolation",
    schema=one_of("execution", "fresh"),
    doc="execution: share a child process with this execution's other tasks; fresh: one of its own.",
)
_SANDBOX = Input(
    name="sandbox",
    schema={
        "anyOf": [
            FLAG,
            one_of("strict", "off"),
            {"type": "object", "properties": {"network": FLAG}, "additionalProperties": False},
        ]
    },
    doc="strict runs it without network, files and processes of the machine; {network: true} with the network.",
)
_FROM = {"type": "object", "properties": {"from": TEXT, "import": TEXT_OR_TEXTS, "as": TEXT}, "required": ["import"]}
_LIBS = {
    "anyOf": [
        TEXT,
        {"type": "object", "additionalProperties": {"anyOf": [TEXT, _FROM, TEXTS]}},
        {"type": "array", "items": {"anyOf": [TEXT, OBJECT]}},
    ],
    "description": "{pd: pandas}, [json, numpy as np] or {from: datetime, import: date}",
}

_SANDBOX_ERRORS = ("sandbox.input", "sandbox.limit", "sandbox.unavailable")

NOOP = ToolKind(
    name="noop",
    doc="Does nothing and succeeds; it can carry a policy. With args its result is the rendered args.",
    inputs=(ARGS,),
    spec=(
        Input(
            name="place",
            schema=one_of("server", "worker"),
            doc="Where it runs: on the server, or in the pipeline of a worker.",
        ),
    ),
)

LOG = ToolKind(
    name="log",
    doc="Writes one line into the execution's log: the message, then every other input by name.",
    inputs=(
        Input(name="message", schema=ANYTHING, prose=True, doc="The message.", aliases=("msg", "text")),
        Input(name="level", schema=TEXT, doc="A word of your own, such as info or error."),
        ARGS,
    ),
    open_inputs=True,
)

PYTHON = ToolKind(
    name="python",
    error_kinds=("py.exception", "py.result", *_SANDBOX_ERRORS),
    doc="Runs Python in a child process. The value of `result`, or what `main` returns, is the result.",
    inputs=(
        Input(name="code", schema=TEXT, doc="The program, taken as it is written: never a template.", verbatim=True),
        Input(
            name="args",
            schema=OBJECT,
            doc="Arguments by name.",
            aliases=("params", "parameters", "payload", "data", "input", "variables", "kwargs", "op_kwargs"),
        ),
        Input(
            name="libs",
            schema=_LIBS,
            doc="Imports by the name they get: {pd: pandas}, [json, numpy as np] or {from: datetime, import: date}.",
            read_strictly=True,
        ),
        Input(name="script", schema=script_source("file"), doc="The program kept in a file.", read_strictly=True),
        TABLES,
    ),
    spec=(
        _ISOLATION,
        _SANDBOX,
        ROWS,
        Input(
            name="tables",
            schema=one_of("path", "arrow", "pandas"),
            doc="What the variables of tables are: the path of a Parquet file, or a table of pyarrow or pandas; path "
            "when left out.",
        ),
    ),
    one_of=(("code", "script"),),
    defaults={"timeout": 300},
)

SHELL = ToolKind(
    name="shell",
    result_keys=("exit_code", "stdout", "stderr"),
    error_kinds=("shell.exit", "shell.input", "shell.template", *_SANDBOX_ERRORS),
    doc="Runs a command, where the operator allows this kind. Template values in text are quoted as single arguments.",
    inputs=(
        Input(
            name="cmds",
            schema=TEXT_OR_TEXTS,
            doc="Text runs under sh -c; a list is an argument vector.",
            required=True,
            aliases=("cmd", "command", "commands", "run"),
            quoted=True,
        ),
        _ENV,
        _CWD,
        _STDIN,
    ),
    spec=(_OK_EXIT_CODES, _SANDBOX),
    defaults={"timeout": 300},
)

SCRIPT = ToolKind(
    name="script",
    result_keys=("exit_code", "stdout", "stderr"),
    error_kinds=("shell.exit", "shell.input", "shell.template", *_SANDBOX_ERRORS),
    doc="Runs a program text in the language it names, where the operator allows this kind.",
    inputs=(
        Input(
            name="language",
            schema=one_of("python", "sh", "bash", "node", "ruby", "perl"),
            doc="Interpreter; that of the file's ending, else sh, when left out.",
            aliases=("interpreter",),
        ),
        Input(name="code", schema=TEXT, doc="The program, taken as it is written: never a template.", verbatim=True),
        Input(
            name="script",
            schema=script_source("file", "artifact"),
            doc="The program kept in a file, or in the results store.",
            read_strictly=True,
        ),
        Input(
            name="args",
            schema={"anyOf": [OBJECT, TEXTS]},
            doc="Arguments of the program: a list in order, a mapping as --name=value.",
        ),
        _ENV,
        _CWD,
        _STDIN,
    ),
    spec=(_OK_EXIT_CODES, _SANDBOX),
    one_of=(("code", "script"),),
    defaults={"timeout": 300},
)

_ENTRIES = {"type": "array", "items": OBJECT}

CONTAINER = ToolKind(
    name="container",
    credential_types=("container", "kubernetes"),
    error_kinds=(
        *("container.denied", "container.error", "container.exit", "container.image", "container.input"),
        "container.oom",
    ),
    doc="Runs a container image by Docker, Podman or Kubernetes, where the operator allows this kind. Template values "
    "in the text of a command are quoted as single arguments.",
    one_of=(("image", "runtime"),),
    inputs=(
        Input(name="image", schema=TEXT, doc="Image to run."),
        Input(
            name="runtime",
            schema=OBJECT,
            doc="image, pull, user, network and cwd as one mapping. Keys of the task itself override those in it.",
        ),
        Input(
            name="command",
            schema=TEXT_OR_TEXTS,
            doc="Command in place of the image's entry point. Text runs under /bin/sh -c of the image; a list is an "
            "argument vector.",
            quoted=True,
        ),
        Input(
            name="args",
            schema={"anyOf": [OBJECT, TEXTS]},
            doc="Arguments of the command: a list in order, a mapping as --name=value.",
        ),
        _ENV,
        Input(name="cwd", schema=TEXT, doc="Folder inside the container to run in.", aliases=("workdir",)),
        Input(
            name="user",
            schema=TEXT,
            doc="User and group that it runs as, 1000:1000; the user of the image when left out.",
        ),
        Input(
            name="network",
            schema=TEXT,
            doc="none, bridge, host, or the name of a network; the engine's default when left out.",
        ),
        Input(
            name="pull",
            schema=one_of("missing", "always", "never"),
            doc="When the image is pulled; missing when left out.",
        ),
        Input(
            name="volumes",
            schema=_ENTRIES,
            doc="Folders mounted into it: {source, target, read_only}. source is in a data folder of the worker; on "
            "Kubernetes {claim, target}. Read-only unless read_only is false.",
        ),
        Input(
            name="artifacts",
            schema=_ENTRIES,
            doc="Files or folders copied out when it has succeeded: {path, file}. file is in a data folder.",
        ),
        AUTH,
    ),
    spec=(
        _OK_EXIT_CODES,
        Input(name="max_bytes", schema=COUNT, doc="Longest output kept of each stream; 1 MiB when left out."),
    ),
    defaults={"timeout": 3600},
)

KINDS = (PLAYBOOK, WORKBOOK, SECRETS, NOOP, LOG, PYTHON, SHELL, SCRIPT, CONTAINER)
