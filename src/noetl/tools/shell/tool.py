"""`shell` runs a command and `script` a program text, where the operator allows the kind (design.md §8).

The text of a command runs under `sh -c`; `templates.shell_commands` has quoted its template values as single
arguments. A list is an argument vector and runs without a shell. A program text runs under its interpreter.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.files import read_script
from noetl.tools.internal import loaded_value
from noetl.tools.shell.inputs import arguments_of, program_of, result_of, text_of
from noetl.tools.shell.programs import private_folder, run

SHELL = "shell"
# Every user of a machine can read the arguments of all programs, and the text contains template values. So the text
# travels in the environment, which only the owner can read, and is unset before the command runs.
_TEXT = "NOETL_COMMAND"
_EVALUATE = f'_noetl_text=${_TEXT}; unset {_TEXT}; eval "$_noetl_text"'


class ShellTool(Tool):
    """The tool of the kind `shell`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        argv, env = _command(inputs.get("cmds"))
        program = program_of(argv, inputs, context, env)
        async with private_folder() as folder:
            return result_of(await run(program, folder), context, SHELL)

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {SHELL: {"exit_code": None}}


def _command(cmds: Any) -> tuple[list[str], dict[str, str]]:
    """The argument vector of a command, and further environment variables for it."""
    if isinstance(cmds, str) and cmds.strip():
        return ["/bin/sh", "-c", _EVALUATE], {_TEXT: text_of(cmds)}
    if isinstance(cmds, list) and cmds:
        argv = [text_of(item) for item in cmds]
        # Checked here: the program is started by the guard, whose shell would only say "not found".
        if shutil.which(argv[0]) is None:
            raise ToolError("shell.input", f'there is no program "{argv[0]}" here')
        return argv, {}
    raise ToolError("shell.input", "cmds must be the text of a command, or a list of arguments")


SCRIPT = "script"
# By language: the interpreter with its options, and the name of the file.
_LANGUAGES = {
    "sh": (("sh",), "program.sh"),
    "bash": (("bash",), "program.sh"),
    "python": ((sys.executable, "-I"), "program.py"),
    "node": (("node",), "program.js"),
    "ruby": (("ruby",), "program.rb"),
    "perl": (("perl",), "program.pl"),
}


class ScriptTool(Tool):
    """The tool of the kind `script`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        interpreter, name = _interpreter(inputs.get("language") or _language_by_name(inputs.get("script")))
        text, arguments = await _program_text(inputs, context), arguments_of(inputs.get("args"))
        async with private_folder() as folder:
            file: Path = folder / name
            file.write_text(text, encoding="utf-8")
            program = program_of([*interpreter, str(file), *arguments], inputs, context)
            return result_of(await run(program, folder), context, SCRIPT)

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {SCRIPT: {"exit_code": None}}


def _language_by_name(script: Any) -> str:
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
    """The program text: from the playbook, a file in a data folder, or the results store. Raises ToolError
    `shell.input` if there is none or it may not be read."""
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
            return await read_script(str(uri), context.permissions.data_folders, kind="shell.input")
        case "artifact":
            return _artifact(uri, context)
        case _:
            raise ToolError("shell.input", f'script.source.type "{kind}" is not known: write file or artifact')


def _artifact(uri: Any, context: ToolContext) -> str:
    text = loaded_value(uri, context)
    if not isinstance(text, str):
        raise ToolError("shell.input", f"the artifact is {type(text).__name__}, not a program text")
    return text
