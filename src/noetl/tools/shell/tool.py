"""`shell`: runs a command, where the operator allows the kind (design.md §8).

Text runs under `sh -c`: its templates became single arguments before it came here (`templates.shell`). A list is an
argument vector, run without any shell.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.shell.inputs import program_of, result_of, text_of
from noetl.tools.shell.programs import private_folder, run

WORD = "shell"
# Everybody on a machine can read the arguments of every program, and the values of templates stand in the text. The
# environment is for its owner only, and the command does not hand it on.
_TEXT = "NOETL_COMMAND"
_EVALUATES = f'_noetl_text=${_TEXT}; unset {_TEXT}; eval "$_noetl_text"'


class ShellTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        argv, env = _command(inputs.get("cmds"))
        program = program_of(argv, inputs, context, env)
        async with private_folder() as folder:
            return result_of(await run(program, folder), context, WORD)

    async def close(self) -> None:
        """Nothing is open between tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {WORD: {"exit_code": None}}


def _command(cmds: Any) -> tuple[list[str], dict[str, str]]:
    """The argument vector, and what the program is given in its environment besides."""
    if isinstance(cmds, str) and cmds.strip():
        return ["/bin/sh", "-c", _EVALUATES], {_TEXT: text_of(cmds)}
    if isinstance(cmds, list) and cmds:
        argv = [text_of(item) for item in cmds]
        if shutil.which(argv[0]) is None:
            raise ToolError("shell.input", f'there is no program "{argv[0]}" here')
        return argv, {}
    raise ToolError("shell.input", "cmds must be the text of a command, or a list of arguments")
