"""`python`: runs the author's code in a child process (TOOL-07, O-11), with the imports of `libs`.

The code is used as written, never as a template. Its variables are the keys of `args` and all names that a template
would know. Only names that occur in the text are sent, so that a large `ctx` costs nothing unless the code reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import UNKNOWN, Tool, ToolContext, ToolResult
from noetl.tools.python.context_reads import NAME as CONTEXT
from noetl.tools.python.context_reads import reads_context
from noetl.tools.python.process import PythonChildren, SharedFiles
from noetl.tools.sandbox import default_limits, limits_of, sandbox_of

LIBS_FORMS = "a mapping {pd: pandas}, a list [json, numpy as np], or {from: datetime, import: [date, time]}"
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)(?:\s+as\s+(?P<name>[A-Za-z_]\w*))?\Z")
# The name in the code, the module, the attribute of the module; an empty attribute means the module itself.
Import = tuple[str, str, str]

if TYPE_CHECKING:
    from noetl.tools.table_files import TableFiles

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
# Names under which the code finds all arguments as one mapping.
_AS_ONE_MAPPING = frozenset({"args", "input_data"})
_TABLE_KINDS = ("path", "arrow", "pandas")


class PythonTool(Tool):
    """The tool of the kind `python`."""

    def __init__(self) -> None:
        self._children = PythonChildren()
        self._tables: TableFiles | None = None  # made by the first task that reads or returns a table

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = await _request(inputs, context)
        if inputs.get("tables") is None and context.spec.get("rows") is None:
            return _result(await self._answer(request, context))
        # Imported here: tables import SQL and DuckDB, which most tasks never need.
        from noetl.tools.table_files import table_folder

        with table_folder() as folder:
            return await self._with_tables(request, inputs.get("tables"), context, folder)

    async def _with_tables(
        self, request: dict[str, Any], tables: Any, context: ToolContext, folder: Path
    ) -> ToolResult:
        """Run the code with tables to read, or with a result that becomes a table."""
        from noetl.tools.table_files import TableFiles, fetched_tables, store_table, wants_table
        from noetl.tools.table_sql import rows_of_json

        kind = str(context.spec.get("tables") or "path")
        if kind not in _TABLE_KINDS:
            raise ToolError("py.exception", f'spec.tables "{kind}" is not known: {", ".join(_TABLE_KINDS)}')
        files = await fetched_tables(tables, context, folder)
        request |= {"tables": {name: str(file) for name, file in files.items()}, "tables_as": kind}
        if not wants_table(context.spec):
            return _result(await self._answer(request, context, SharedFiles(folder)))
        written, file = folder / "written", folder / "rows.parquet"
        written.touch()
        shared = SharedFiles(folder, written)
        result = _result(await self._answer({**request, "rows_file": str(written)}, context, shared))
        if self._tables is None:
            self._tables = TableFiles()
        if result.result == "json":
            await self._tables.sql(context.task_run.execution_id, folder, rows_of_json(written, file))
        else:
            written.rename(file)
        return msgspec.structs.replace(result, result=await store_table(file, context, self._tables))

    async def _answer(
        self, request: dict[str, Any], context: ToolContext, files: SharedFiles | None = None
    ) -> dict[str, Any]:
        sandbox = sandbox_of(context.spec, is_required=context.permissions.sandbox)
        fresh = sandbox is not None or context.spec.get("isolation") == "fresh"
        # Outside of a sandbox the process may serve a further call, which needs other limits.
        request |= {"limits_are_final": sandbox is not None}
        child = await self._children.take(context.task_run.execution_id, fresh=fresh, sandbox=sandbox, files=files)
        try:
            return await child.call(request, context.live.write_output)
        finally:
            await self._children.give_back(context.task_run.execution_id, child, fresh=fresh)

    def release(self, execution_id: str) -> None:
        """Free what is kept for an execution that is over."""
        self._children.release(execution_id)
        if self._tables is not None:
            self._tables.release(execution_id)

    async def close(self) -> None:
        await self._children.close()
        if self._tables is not None:
            await self._tables.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {"py": {"exception": None}}


async def _request(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    code = await _code(inputs, context)
    args = inputs.get("args") or {}
    if not isinstance(args, dict):
        raise ToolError("py.exception", f"args must be a mapping, this is {type(args).__name__}", exception="TypeError")
    # `context` is all data of the execution: it is sent only to code that reads it.
    words = _identifiers(code) if reads_context(code) else _identifiers(code) - {CONTEXT}
    names = {name: value for name in words if (value := context.name(name)) is not UNKNOWN}
    # `def main(**rest)` receives all arguments too.
    reads_all = words & _AS_ONE_MAPPING or ("main" in words and "**" in code)
    mapping = _merged_args(context, args) if reads_all else args
    return {
        "code": code,
        "file": _file(inputs, context),
        "context": names.pop(CONTEXT, None) if CONTEXT not in args else None,
        "libs": imports_of(inputs.get("libs")),
        "names": {**names, **dict.fromkeys(_AS_ONE_MAPPING, mapping), **args},
        "limits": {**default_limits(context.spec), **limits_of(context.spec)},
    }


def _file(inputs: Mapping[str, Any], context: ToolContext) -> str:
    """The file name of the code in tracebacks: its file, or step and task if the code is in the playbook."""
    script = inputs.get("script") if inputs.get("code") is None else None
    uri = script.get("uri") if isinstance(script, dict) else script
    return str(uri) if uri else f"{context.task_run.step}/{context.task_run.task}"


def _merged_args(context: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the task over those of the token, as in SQL tasks (O-11)."""
    token = context.name("args")
    return {**token, **args} if isinstance(token, dict) else args


@lru_cache(maxsize=512)
def _identifiers(code: str) -> frozenset[str]:
    """Every word of the code that could be a variable: possibly too many, never too few."""
    return frozenset(_IDENTIFIER.findall(code))


async def _code(inputs: Mapping[str, Any], context: ToolContext) -> str:
    code = inputs.get("code")
    if code is not None:
        return str(code)
    script = inputs.get("script")
    uri = script.get("uri") if isinstance(script, dict) else script
    if not uri:
        raise ToolError("py.exception", "there is neither code nor script", exception="ValueError")
    source = script.get("source") if isinstance(script, dict) else None
    place = source.get("type", "file") if isinstance(source, dict) else source or "file"
    if place != "file":
        raise ToolError("py.exception", f'script.source "{place}" is not known: write {{type: file}}')
    # Imported here: most tasks carry their code in the playbook, and files bring shutil and tempfile with them.
    from noetl.tools.files import read_script

    return await read_script(str(uri), context.permissions.data_folders, kind="py.exception", exception="OSError")


def _result(answer: dict[str, Any]) -> ToolResult:
    stdout = answer["stdout"] or None
    if answer["ok"]:
        return ToolResult(result=answer["result"], helpers={"py": {"exception": None}}, stdout=stdout)
    raise ToolError(
        answer["kind"],
        answer["message"],
        exception=answer.get("exception"),
        trace=answer.get("trace"),
        stdout=stdout,
    )


# Libs: the imports of a python task besides its code, in each form that authors use (design.md §5):
# `{pd: pandas}`, `[json, numpy as np]`, `{from: datetime, import: date}`, and lists of these.


def imports_of(libs: Any) -> list[Import]:
    """The imports in `libs`, in their order. Raises ToolError `py.exception`, which names the forms."""
    return [] if libs is None else list(_imports(libs))


def _imports(libs: Any) -> Iterator[Import]:
    match libs:
        case str():
            for part in libs.split(","):
                yield from _plain(part.strip())
        case list():
            for entry in libs:
                yield from _imports(entry)
        case Mapping() if "from" in libs or "import" in libs:
            yield from _from(libs)
        case Mapping() if isinstance(libs.get("name"), str) and set(libs) <= {"name", "as", "alias", "version"}:
            yield _with_name(_module(libs["name"]), libs.get("as") or libs.get("alias"))
        case Mapping():
            for name, module in libs.items():
                yield from _import_under(str(name), module)
        case _:
            raise _libs_error()


def _import_under(name: str, module: Any) -> Iterator[Import]:
    if isinstance(module, Mapping) and "from" in module:
        # Only a single name can be imported under another.
        [single] = _from(module) if isinstance(module.get("import"), str) else [None]
        if single is None:
            raise _libs_error()
        yield _with_name(single, name)
    elif isinstance(module, str):
        yield _with_name(_module(module), name)
    else:
        raise _libs_error()


def _from(entry: Mapping[str, Any]) -> Iterator[Import]:
    """`{from: module, import: name}`; without `from` it is an import of the module itself."""
    module, imported = entry.get("from"), entry.get("import")
    names = imported if isinstance(imported, list) else str(imported or "").split(",")
    if imported is None or not all(isinstance(name, str) and name.strip() for name in names):
        raise _libs_error()
    for spelling in names:
        name, attribute, _ = _module(spelling.strip())
        if module is None:
            yield from [_with_name((name, attribute, ""), entry["as"])] if entry.get("as") else _plain(spelling.strip())
        else:
            alias = name if " as " in spelling else attribute
            yield _with_name((alias, _module(str(module))[1], attribute), entry.get("as") if len(names) == 1 else None)


def _plain(spelling: str) -> Iterator[Import]:
    """`import a.b` imports a.b and binds the name a."""
    name, module, _ = _module(spelling)
    yield name.partition(".")[0], module, ""
    if "." in name:
        yield name.partition(".")[0], name.partition(".")[0], ""


def _module(spelling: str) -> Import:
    match = _MODULE.match(spelling)
    if match is None:
        raise _libs_error()
    return match["name"] or match["module"], match["module"], ""


def _with_name(entry: Import, name: Any) -> Import:
    return (str(name), *entry[1:]) if name else entry


def _libs_error() -> ToolError:
    return ToolError("py.exception", f"libs has an unknown form: write {LIBS_FORMS}", exception="ValueError")
