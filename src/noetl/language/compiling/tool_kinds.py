"""Tool kinds: each task's kind is one that somebody provides (VAL-04, VAL-13, TOOL-13)."""

from __future__ import annotations

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.language.compiling.passes import Compilation, head
from noetl.language.compiling.pipelines import every_task
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import nearest

# Words people write as a kind, each with a code and a way out of its own.
_NO_KINDS = {
    "sink": (
        "E_SINK",
        "there is no tool kind sink",
        "storage is a tool task that returns a reference, such as kind: postgres with table",
    ),
    "loop": (
        "E_LOOP_KIND",
        "loop is not a tool kind",
        "a loop modifies a step: loop: {in: …, iterator: …} beside tool",
    ),
    "iterator": (
        "E_TOOL_KIND",
        "iterator is not a tool kind",
        "a loop modifies a step: loop: {in: …, iterator: …} beside tool, which runs for each",
    ),
    "next": (
        "E_TOOL_KIND",
        "next is not a tool kind here",
        "routes belong to the step's next; kind: next exists in then lists of v2-case only",
    ),
}

# Words of other tools and systems for a kind that there is, and that are not read as that kind.
_MEANT = {
    **dict.fromkeys(("bash", "sh", "zsh", "command", "cmd", "exec"), "shell"),
    "code": "python",
    **dict.fromkeys(("api", "request", "curl"), "http"),
    "psql": "postgres",
    **dict.fromkeys(("s3", "blob", "azure"), "storage"),
    **dict.fromkeys(("mysql", "mariadb", "oracle", "mssql", "sqlserver", "sqlite", "clickhouse", "trino"), "sql"),
    **dict.fromkeys(("mail", "smtp"), "email"),
}


def check_tool_kinds(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TOOL_KIND, W_TOOL_KIND, E_LOOP_KIND and E_SINK."""
    for task, _ in every_task(playbook):
        _check(task, compilation)
    return playbook


def _check(task: TaskSyntax, compilation: Compilation) -> None:
    kind = compilation.kinds.get(task.kind)
    place = task.kind_node or head(task)
    if kind is not None:
        if kind.plugin is not None:
            message = f'tool kind "{task.kind}" is known, and a plug-in runs it'
            compilation.note("W_TOOL_KIND", place, message, f"install {kind.plugin} where workers run")
    elif task.kind in _NO_KINDS:
        code, message, hint = _NO_KINDS[task.kind]
        compilation.note(code, place, message, hint)
    else:
        _note_unknown(task.kind, place, compilation)


def _note_unknown(kind: str, place: PositionedDiagnostic, compilation: Compilation) -> None:
    if compilation.extensions:
        message = f'tool kind "{kind}" is not built in, and no plug-in here provides it'
        compilation.note("W_TOOL_KIND", place, message, "a worker without it ends the task with tool.unknown_kind")
        return
    meant = _MEANT.get(kind.lower())
    guess = meant if meant in compilation.kinds else nearest(kind, list(compilation.kinds))
    known = f"known kinds: {', '.join(compilation.kinds)}"
    hint = f'did you mean "{guess}"? {known}' if guess else f"{known}; plug-ins add more (--allow-extensions)"
    compilation.note("E_TOOL_KIND", place, f'"{kind}" is not a tool kind', hint)
