"""`python`: runs the author's code in a child process (TOOL-07, O-11). Also `libs`, the imports that a task names
beside its code.

The code is taken as it is written. Its variables are the keys of `args`, and whatever other names it uses that a
template would know; only names that occur in the text are sent, so that a large `ctx` costs nothing unless it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import UNKNOWN, ToolContext, ToolResult
from noetl.tools.files import read_script
from noetl.tools.python.children import PythonChildren
from noetl.tools.python.context_reads import NAME as CONTEXT
from noetl.tools.python.context_reads import reads_context
from noetl.tools.python.limits import default_limits, limits_of
from noetl.tools.sandbox import sandbox_of

SHAPES = "a mapping {pd: pandas}, a list [json, numpy as np], or {from: datetime, import: [date, time]}"
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)(?:\s+as\s+(?P<name>[A-Za-z_]\w*))?\Z")
Import = tuple[str, str, str]  # the name it gets, the module, what of the module; nothing for all of it


if TYPE_CHECKING:
    from noetl.tools.tables.files import TableFiles


_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_AS_ONE_MAPPING = frozenset({"args", "input_data"})
_TABLE_KINDS = ("path", "arrow", "pandas")


class PythonTool:
    def __init__(self) -> None:
        self._children = PythonChildren()
        self._tables: TableFiles | None = None  # made by the first task that reads or returns a table

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = await _request(inputs, context)
        if inputs.get("tables") is None and context.spec.get("rows") is None:
            return _result(await self._answer(request, context))
        # Loaded here: with tables come SQL and DuckDB, which most tasks never need.
        from noetl.tools.tables.stored import table_folder

        with table_folder() as folder:
            return await self._with_tables(request, inputs.get("tables"), context, folder)

    async def _with_tables(
        self, request: dict[str, Any], tables: Any, context: ToolContext, folder: Path
    ) -> ToolResult:
        """The same, with tables to read, or a result that becomes one."""
        from noetl.tools.tables.files import TableFiles
        from noetl.tools.tables.stored import fetched_tables, store_table, wants_table
        from noetl.tools.tables.table_sql import rows_of_json

        kind = str(context.spec.get("tables") or "path")
        if kind not in _TABLE_KINDS:
            raise ToolError("py.exception", f'spec.tables "{kind}" is not known: {", ".join(_TABLE_KINDS)}')
        files = await fetched_tables(tables, context, folder)
        request |= {"tables": {name: str(file) for name, file in files.items()}, "tables_as": kind}
        if not wants_table(context.spec):
            return _result(await self._answer(request, context, folder))
        written, file = folder / "written", folder / "rows.parquet"
        result = _result(await self._answer({**request, "rows_file": str(written)}, context, folder))
        if self._tables is None:
            self._tables = TableFiles()
        if result.result == "json":
            await self._tables.sql(context.execution_id, folder, rows_of_json(written, file))
        else:
            written.rename(file)
        return msgspec.structs.replace(result, result=await store_table(file, context, self._tables))

    async def _answer(
        self, request: dict[str, Any], context: ToolContext, folder: Path | None = None
    ) -> dict[str, Any]:
        sandbox = sandbox_of(context.spec, is_required=context.sandbox)
        fresh = sandbox is not None or context.spec.get("isolation") == "fresh"
        child = await self._children.take(context.execution_id, fresh=fresh, sandbox=sandbox, folder=folder)
        try:
            return await child.call(request, context.printed)
        finally:
            await self._children.give_back(context.execution_id, child, fresh=fresh)

    def release(self, execution_id: str) -> None:
        """This execution is over: nothing of it is kept."""
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
    words = _identifiers(code) if reads_context(code) else _identifiers(code) - {CONTEXT}
    names = {name: value for name in words if (value := context.name(name)) is not UNKNOWN}
    reads_all = words & _AS_ONE_MAPPING or ("main" in words and "**" in code)  # `def main(**rest)` is given them too
    given = _merged_args(context, args) if reads_all else args
    return {
        "code": code,
        "file": _file(inputs, context),
        "context": names.pop(CONTEXT, None) if CONTEXT not in args else None,
        "libs": imports_of(inputs.get("libs")),
        "names": {**names, **dict.fromkeys(_AS_ONE_MAPPING, given), **args},
        "limits": {**default_limits(context.spec), **limits_of(context.spec)},
    }


def _file(inputs: Mapping[str, Any], context: ToolContext) -> str:
    """What a traceback calls the code: its file, or its task where it stands in the playbook."""
    script = inputs.get("script") if inputs.get("code") is None else None
    uri = script.get("uri") if isinstance(script, dict) else script
    return str(uri) if uri else f"{context.step}/{context.task}"


def _merged_args(context: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    """The task's own args over those of the token, as SQL reads them too (O-11)."""
    token = context.name("args")
    return {**token, **args} if isinstance(token, dict) else args


@lru_cache(maxsize=512)
def _identifiers(code: str) -> frozenset[str]:
    """Every word of the code that could be a variable: more than needed, never less."""
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
    return await read_script(str(uri), context.data_folders, kind="py.exception", exception="OSError")


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


# Libs: the imports that a python task names beside its code, in each shape people write them (design.md §5).
#
# `{pd: pandas}`, `[json, numpy as np]`, `{from: datetime, import: date}`, and lists of these.


def imports_of(libs: Any) -> list[Import]:
    """The imports that `libs` names, in their order. ToolError `py.exception` names the shapes."""
    return [] if libs is None else list(_imports(libs))


def _imports(libs: Any) -> Iterator[Import]:
    match libs:
        case str():
            for part in libs.split(","):
                yield from _plain(part.strip())
        case list():
            for one in libs:
                yield from _imports(one)
        case Mapping() if "from" in libs or "import" in libs:
            yield from _from(libs)
        case Mapping() if isinstance(libs.get("name"), str) and set(libs) <= {"name", "as", "alias", "version"}:
            yield _named(_module(libs["name"]), libs.get("as") or libs.get("alias"))
        case Mapping():
            for name, module in libs.items():
                yield from _under(str(name), module)
        case _:
            raise _unknown()


def _under(name: str, module: Any) -> Iterator[Import]:
    if isinstance(module, Mapping) and "from" in module:
        [one] = _from(module) if isinstance(module.get("import"), str) else [None]
        if one is None:
            raise _unknown()
        yield _named(one, name)
    elif isinstance(module, str):
        yield _named(_module(module), name)
    else:
        raise _unknown()


def _from(said: Mapping[str, Any]) -> Iterator[Import]:
    """`{from: module, import: name}`; without `from` it is an import of the module itself."""
    module, wanted = said.get("from"), said.get("import")
    names = wanted if isinstance(wanted, list) else str(wanted or "").split(",")
    if wanted is None or not all(isinstance(name, str) and name.strip() for name in names):
        raise _unknown()
    for written in names:
        name, found, _ = _module(written.strip())
        if module is None:
            yield from [_named((name, found, ""), said["as"])] if said.get("as") else _plain(written.strip())
        else:
            shown = name if " as " in written else found
            yield _named((shown, _module(str(module))[1], found), said.get("as") if len(names) == 1 else None)


def _plain(written: str) -> Iterator[Import]:
    """`import a.b` gives a, once a.b is imported."""
    name, module, _ = _module(written)
    yield name.partition(".")[0], module, ""
    if "." in name:
        yield name.partition(".")[0], name.partition(".")[0], ""


def _module(written: str) -> Import:
    found = _MODULE.match(written)
    if found is None:
        raise _unknown()
    return found["name"] or found["module"], found["module"], ""


def _named(one: Import, name: Any) -> Import:
    return (str(name), *one[1:]) if name else one


def _unknown() -> ToolError:
    return ToolError("py.exception", f"libs is not what it should be: write {SHAPES}", exception="ValueError")
