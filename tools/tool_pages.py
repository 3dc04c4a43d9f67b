"""The pages of docs/tools/: one for each kind of task, its tables from declarations, its words and example by hand.

The tables come from `noetl.tools.kinds`, what the checker itself uses; `tools/tool_examples/KIND.md` is the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from noetl.net.kinds import COMMON_ERRORS, COMMON_SPEC, Input, ToolKind, TriggerKind
from noetl.tools.kinds import KINDS, group_of
from noetl.tools.registry import EXTRAS, OFF_BY_DEFAULT

RUN_HERE = {name: kind for name, kind in KINDS.items() if kind.plugin is None}
EXAMPLES = Path(__file__).parent / "tool_examples"

INDEX_HEAD = """# Kinds of tasks

A task has a `kind`, the inputs of that kind beside it, and a `spec`. Each kind has a page with an example; the tables
are generated from the declarations that the checker uses. Plug-ins add further kinds: `examples/plugin` is a complete
one.
"""

COMMON_HEAD = """
## spec, of every kind

A task's options come from five places. A later one overrides an earlier one: the defaults of the kind, `executor.spec`,
`step.spec`, `loop.spec`, the `spec` of the task.

"""

COMMON_ERRORS_HEAD = """
## Errors of every kind

A policy finds the kind of an error in `outcome.error.kind`. The page of a kind lists its own errors.

"""

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
}

ERRORS_HEAD = """A policy finds the kind of an error in `outcome.error.kind`. Besides these errors, a task can end with
one of the [errors of every kind](README.md#errors-of-every-kind).

"""

_ERROR_HEAD = "| kind of error | meaning |\n|---|---|\n"
# What the errors of the tools mean, and what to do, by the last word of their kind or by the whole kind.
_ERRORS = {
    "conflict": "What the task would make exists already, or has changed.",
    "data": "The content of the file is not what its format says. Correct or replace the file.",
    "denied": "The service does not accept the credential, or the account may not do this.",
    "error": "Anything else that the service reports, or the connection was lost. `error.retryable` says whether "
    "another attempt may help.",
    "exit": "The command ended with an exit code other than 0 and those of `spec.ok_exit_codes`.",
    "failed": "The service was reached, and the work failed there.",
    "input": "An input is missing, malformed or not allowed here. The message names it.",
    "limit": "The content is larger than the limits of the task allow. The message names the limit.",
    "missing": "What the task reads or changes does not exist.",
    "archive.conflict": "The target exists already and may not be replaced, or is a folder where the archive has a "
    "file.",
    "archive.denied": "The zip file is encrypted. Unpack it where the password is known.",
    "archive.unsafe": "A member is a link, a device, has an unsafe name or is there twice. Nothing was unpacked.",
    "amqp.conflict": "The queue is locked by another connection, or the broker has it with other properties.",
    "amqp.missing": "No such exchange or queue, no queue took the message, or the receipts are no longer valid.",
    "cancelled": "A person, or the end of the execution, cancelled the task.",
    "container.exit": "The container ended with an exit code other than 0 and those of `spec.ok_exit_codes`.",
    "container.image": "The image cannot be pulled, or is not there with `pull: never`.",
    "container.oom": "The container needed more memory than `spec.resources.memory`.",
    "dask.denied": "The scheduler refused the certificate, or the authority has not signed the scheduler's own.",
    "dask.failed": "The code raised an exception. `error.code` is its class.",
    "dask.missing": "The interpreter of the client has no `distributed`. Install it there.",
    "dbt.denied": "`noetl credential test`: dbt cannot connect to the database.",
    "dbt.failed": "A node failed. `error.details.nodes` has all nodes with their messages.",
    "dbt.missing": "The interpreter has no dbt. Install it there, with the adapter of your database.",
    "deadline": "The deadline of the execution has passed.",
    "dlt.failed": "The destination refused jobs of the load.",
    "dlt.missing": "The interpreter has no dlt. Install it there, with the destination.",
    "duckdb.error": "DuckDB refused the SQL, or could not open the database. `error.code` is the class of the error.",
    "http.status": "The server answered with a status of 400 or more. 408, 425, 429 and all from 500 on are retryable.",
    "http.transport": "No answer came: the address, the connection or TLS failed.",
    "kafka.conflict": "The topic was deleted and created again, so the offsets no longer fit.",
    "keychain.unresolved": "A credential or secret cannot be found or read.",
    "lake.denied": "The REST catalogue refused the credential.",
    "lake.error": "The REST catalogue cannot be reached, or its answer cannot be used.",
    "lease.lost": "The worker that ran the task was lost, or lost its lease. The task may have taken effect.",
    "llm.budget": "`spec.max_rounds` or `spec.max_tokens` is used up.",
    "llm.schema": "The answer does not fit `schema`. A policy can try again.",
    "mcp.tool": "The tool ran and reported an error; the message has its text.",
    "nats.conflict": "The key exists already, or changed since it was read.",
    "nats.missing": "There is no such key or stream, or no service answers.",
    "pg.error": "PostgreSQL reported an error. `error.code` is its SQLSTATE.",
    "pgp.data": "The file is not a whole OpenPGP message, or was changed.",
    "pgp.denied": "The key or password of `auth` does not open the file, or no key in `signers` has signed it.",
    "playbook.failed": "The child execution failed.",
    "py.exception": "The code raised an exception. `outcome.py.exception` is its class.",
    "py.result": "The result cannot be stored: it is not JSON.",
    "quantum.circuit": "The circuit, its parameters, `shots` or `seed` are not valid.",
    "quantum.job": "There is no such job, or it has no results.",
    "quantum.placement": "No backend fits the job. The message gives the reason of each.",
    "quantum.provider_unavailable": "The provider is not installed, not configured, or cannot be reached.",
    "ray.failed": "The code raised an exception. `error.code` is its class.",
    "ray.missing": "The interpreter of the client has no `ray`. Install `ray[client]` there.",
    "redis.conflict": "With `if_absent`: the key exists already.",
    "redis.missing": "There is no such key or field.",
    "result.corrupt": "A stored result does not have its checksum.",
    "result.missing": "A stored result is not in the results store.",
    "result.schema": "The result does not fit the schema that `spec.result_schema` names.",
    "result.too_large": "The result is larger than a limit allows. Return less, or keep it in a file or a table.",
    "sandbox.limit": "The processes of the task together used more than its limits.",
    "sandbox.unavailable": "This machine cannot confine the task. The message gives the reason.",
    "shell.template": "A template is at a place in the command where its value cannot be quoted.",
    "sql.error": "The database reported an error. `error.code` is its own code.",
    "sql.fragment": "A template is at a place in the SQL where no value can be bound, or the database would read the "
    "text differently. The message says how to write it.",
    "ssh.denied": "The machine does not accept the user, password or key.",
    "ssh.exit": "The command ended with an exit code other than 0, or by a signal.",
    "ssh.error": "The machine cannot be reached, or the connection was lost.",
    "ssh.host_key": "The machine has another host key than the credential says. Find out why before you change it.",
    "storage.conflict": "The object exists already (`if_absent`), or has changed (`if_match`).",
    "template.error": "A template of the task cannot be evaluated. The message has its place.",
    "timeout": "The task took longer than its `timeout`.",
    "tool.exception": "The tool failed in a way it has no kind of error for. The message says why.",
    "tool.not_allowed": "The operator does not allow this kind of task, or the address policy refuses the address.",
    "tool.unknown_kind": "No worker runs this kind, or a package it needs is not installed.",
}


def tool_pages() -> dict[str, str]:
    """Every page by its file name. A kind that only a plug-in would run has none."""
    return {"README.md": index_page(), **{f"{name}.md": tool_page(kind) for name, kind in RUN_HERE.items()}}


def index_page() -> str:
    groups = groupby(RUN_HERE.values(), lambda kind: group_of(kind.name))
    tables = (f"\n## {group}\n\n| kind | what it does |\n|---|---|\n{_rows(kinds)}" for group, kinds in groups)
    common = COMMON_HEAD + _table(COMMON_SPEC) + COMMON_ERRORS_HEAD + _error_table(COMMON_ERRORS)
    return INDEX_HEAD + "".join(tables) + common


def _rows(kinds: Iterable[ToolKind]) -> str:
    return "".join(f"| [{kind.name}]({kind.name}.md) | {kind.doc}{_remark(kind)} |\n" for kind in kinds)


def tool_page(kind: ToolKind) -> str:
    parts = [f"# {kind.name}", kind.doc + _needs(kind), (EXAMPLES / f"{kind.name}.md").read_text().rstrip()]
    parts += ["## Inputs", _table(kind.inputs).rstrip()]
    parts += [f"One of {_name_list(group)} must be there." for group in kind.one_of]
    if kind.open_inputs:
        parts.append("Further keys are passed on.")
    if kind.spec:
        parts += ["## spec", _table(kind.spec).rstrip()]
    if kind.error_kinds:
        parts += ["## Errors", _error_text(kind)]
    if kind.trigger is not None:
        parts += ["## As a trigger", _trigger_text(kind.trigger), _table(kind.trigger.inputs).rstrip()]
    own = "Besides these, a" if kind.spec else "A"
    parts.append(f"{own} task's `spec` takes [what every kind takes](README.md#spec-of-every-kind){_limit(kind)}.")
    return "\n\n".join(parts) + "\n"


def _trigger_text(trigger: TriggerKind) -> str:
    found = trigger.doc.removesuffix(".")
    found, item = (f"{text[:1].lower()}{text[1:]}" for text in (found, trigger.item))
    head = "A [trigger](../triggers.md) of this kind waits for items and starts a playbook for each."
    return f"{head} An item is {found}.\nIn the playbook, `workload.item` is {item}"


def _error_text(kind: ToolKind) -> str:
    return ERRORS_HEAD + _error_table(kind.error_kinds).rstrip()


def _error_table(kinds: Iterable[str]) -> str:
    return _ERROR_HEAD + "".join(f"| `{name}` | {_meaning(name)} |\n" for name in kinds)


def _meaning(error: str) -> str:
    """What the error means; one without its own text has that of its last word."""
    return _ERRORS.get(error) or _ERRORS[error.rpartition(".")[2]]


def _remark(kind: ToolKind) -> str:
    return " Off by default." if kind.name in OFF_BY_DEFAULT else ""


def _needs(kind: ToolKind) -> str:
    return f' It needs an extra: `pip install "noetl-engine[{EXTRAS[kind.name]}]"`.' if kind.name in EXTRAS else ""


def _limit(kind: ToolKind) -> str:
    timeout = kind.defaults.get("timeout")
    return f"; `timeout` is {timeout} s when left out" if timeout else ""


def _table(inputs: Iterable[Input]) -> str:
    rows = (f"| `{one.name}` | {form(one.schema)} | {_input_row(one)} |" for one in inputs)
    return "| key | value | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _input_row(one: Input) -> str:
    required = "**Required.** " if one.required else ""
    aliases = f" Also written {_name_list(one.aliases)}." if one.aliases else ""
    return (required + one.doc + aliases).replace("|", "\\|")


def _name_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def form(schema: dict[str, Any]) -> str:
    """The allowed values, as text."""
    if "enum" in schema:
        return _name_list(
            dict.fromkeys(word.upper() if word.upper() in schema["enum"] else word for word in schema["enum"])
        )
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(form(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_WORDS[one] for one in kind)
    if kind == "array" and "items" in schema:
        return f"list of {_several(form(schema['items']))}"
    return _WORDS[kind] if kind else "anything"


def _several(word: str) -> str:
    return {"whole number": "whole numbers", "number": "numbers", "mapping": "mappings", "text": "texts"}.get(
        word, word
    )
