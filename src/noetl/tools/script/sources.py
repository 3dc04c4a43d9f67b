"""Sources: where the text of a script comes from: the playbook, a file in an allowed folder, or the results store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noetl.errors import ToolError
from noetl.tools.artifact.references import loaded
from noetl.tools.contract import ToolContext

MAX_BYTES = 1 << 20


def text_of(inputs: Mapping[str, Any], context: ToolContext) -> str:
    """The program. ToolError `shell.input` where there is none, or it may not be read."""
    code, script = inputs.get("code"), inputs.get("script")
    if (code is None) == (script is None):
        raise ToolError("shell.input", 'a script task needs "code" or "script", and not both')
    if code is not None:
        return str(code)
    uri = script.get("uri") if isinstance(script, Mapping) else script
    source = script.get("source") if isinstance(script, Mapping) else None
    kind = source.get("type", "file") if isinstance(source, Mapping) else "file"
    match kind:
        case "file":
            return _file(str(uri), context.data_folders)
        case "artifact":
            return _artifact(uri, context)
        case _:
            raise ToolError("shell.input", f'script.source.type "{kind}" is not known: write file or artifact')


def _file(uri: str, folders: Sequence[str]) -> str:
    path = allowed(uri.removeprefix("file://"), folders)
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise ToolError("shell.input", f"the script {path} cannot be read: {problem.strerror}") from None
    if len(body) > MAX_BYTES:
        raise ToolError("shell.input", f"the script {path} is longer than {MAX_BYTES >> 20} MiB")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError("shell.input", f"the script {path} is not UTF-8 text") from None


def allowed(written: str, folders: Sequence[str]) -> Path:
    """The file, once every link on the way is followed, if it is in one of the folders."""
    if not folders:
        raise ToolError("shell.input", f'the script "{written}" cannot be read: no data folder is open here')
    roots = [Path(folder).resolve() for folder in folders]
    path = (roots[0] / written).resolve()
    if not any(path.is_relative_to(root) for root in roots):
        raise ToolError("shell.input", f'the script "{written}" is outside the folders that are open here')
    return path


def _artifact(uri: Any, context: ToolContext) -> str:
    text = loaded(uri, context)
    if not isinstance(text, str):
        raise ToolError("shell.input", f"the artifact holds {type(text).__name__} and no program text")
    return text
