"""`shell`: runs a command, where the operator allows the kind (DESIGN §8).

Text runs under `sh -c`: its templates became single arguments before it came here (`templates.shell`). A list is an
argument vector, run without any shell.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from noetl.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.shell.inputs import program_of, result_of, text_of
from noetl.tools.shell.programs import private_folder, run

WORD = "shell"


class ShellTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        program = program_of(_argv(inputs.get("cmds")), inputs, context)
        async with private_folder() as folder:
            return result_of(await run(program, folder), context, WORD)

    async def close(self) -> None:
        """Nothing is open between tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {WORD: {"exit_code": None}}


def _argv(cmds: Any) -> list[str]:
    if isinstance(cmds, str) and cmds.strip():
        return ["/bin/sh", "-c", cmds]
    if isinstance(cmds, list) and cmds:
        argv = [text_of(item) for item in cmds]
        if shutil.which(argv[0]) is None:
            raise ToolError("shell.input", f'there is no program "{argv[0]}" here')
        return argv
    raise ToolError("shell.input", "cmds must be the text of a command, or a list of arguments")
