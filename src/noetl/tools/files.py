"""Files in the data folders that the operator has opened: the only ones a task's inputs may name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from noetl.base.errors import ToolError


def allowed_path(written: str, folders: Sequence[str], *, kind: str) -> str:
    """The path, once every link on the way is followed. A relative one is below the first folder. ToolError `kind`
    says why it cannot be opened."""
    path = written.removeprefix("file:").removeprefix("//")
    if not folders:
        raise ToolError(
            kind, f'"{written}" cannot be opened: no data folder is open here (the setting data_folders opens some)'
        )
    if "\x00" in path:
        raise ToolError(kind, "a path cannot hold a NUL character")
    roots = [os.path.realpath(folder) for folder in folders]
    place = os.path.realpath(os.path.join(roots[0], path))
    if not any(os.path.commonpath([root, place]) == root for root in roots):
        raise ToolError(
            kind, f'"{written}" is outside the folders that are open here (the setting data_folders opens others)'
        )
    return place
