"""`script`: runs a program text under its interpreter, where the operator allows the kind."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.artifact import loaded
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.files import read_script
from noetl.tools.shell.inputs import arguments_of, program_of, result_of
from noetl.tools.shell.programs import private_folder, run

WORD = "script"
# language -> interpreter and its own options, and what the file is called
_LANGUAGES = {
    "sh": (("sh",), "program.sh"),
    "bash": (("bash",), "program.sh"),
    "python": ((sys.executable, "-I"), "program.py"),
    "node": (("node",), "program.js"),
    "ruby": (("ruby",), "program.rb"),
    "perl": (("perl",), "program.pl"),
}


class ScriptTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        interpreter, name = _interpreter(inputs.get("language") or _told_by_name(inputs.get("script")))
        text, arguments = await _program_text(inputs, context), arguments_of(inputs.get("args"))
        async with private_folder() as folder:
            file: Path = folder / name
            file.write_text(text, encoding="utf-8")
            program = program_of([*interpreter, str(file), *arguments], inputs, context)
            return result_of(await run(program, folder), context, WORD)

    async def close(self) -> None:
        """Nothing is open between tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {WORD: {"exit_code": None}}


def _told_by_name(script: Any) -> str:
    """The language of a file by its ending."""
    uri = script.get("uri") if isinstance(script, Mapping) else script
    endings = {Path(name).suffix: language for language, (_, name) in reversed(_LANGUAGES.items())}
    return endings.get(Path(str(uri)).suffix, "sh")


def _interpreter(language: Any) -> tuple[tuple[str, ...], str]:
    known = _LANGUAGES.get(str(language))
    if known is None:
        raise ToolError("shell.input", f'language "{language}" is not known: write {", ".join(_LANGUAGES)}')
    if shutil.which(known[0][0]) is None:
        raise ToolError("shell.input", f'there is no {known[0][0]} here to run language "{language}"')
    return known


async def _program_text(inputs: Mapping[str, Any], context: ToolContext) -> str:
    """The program: from the playbook, a file in an allowed folder, or the results store. ToolError `shell.input` where
    there is none, or it may not be read."""
    code, script = inputs.get("code"), inputs.get("script")
    if (code is None) == (script is None):
        raise ToolError("shell.input", 'a script task needs "code" or "script", and not both')
    if code is not None:
        return str(code)
    uri = script.get("uri") if isinstance(script, Mapping) else script
    source = script.get("source") if isinstance(script, Mapping) else None
    kind = source.get("type", "file") if isinstance(source, Mapping) else source or "file"
    match kind:
        case "file":
            return await read_script(str(uri), context.data_folders, kind="shell.input")
        case "artifact":
            return _artifact(uri, context)
        case _:
            raise ToolError("shell.input", f'script.source.type "{kind}" is not known: write file or artifact')


def _artifact(uri: Any, context: ToolContext) -> str:
    text = loaded(uri, context)
    if not isinstance(text, str):
        raise ToolError("shell.input", f"the artifact holds {type(text).__name__} and no program text")
    return text
