"""Sources: where the text of a script comes from: the playbook, a file in an allowed folder, or the results store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.artifact.references import loaded
from noetl.tools.contract import ToolContext
from noetl.tools.script_files import read_script


async def text_of(inputs: Mapping[str, Any], context: ToolContext) -> str:
    """The program. ToolError `shell.input` where there is none, or it may not be read."""
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
