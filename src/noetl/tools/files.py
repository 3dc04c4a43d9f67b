"""Files in the data folders that the operator has opened: the only ones a task's inputs may name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from noetl.base.errors import ToolError

NO_FOLDER = (
    "no data folder is open here; whoever runs this worker opens one with data_folders in noetl.toml, or with "
    "NOETL_DATA_FOLDERS"
)
OUTSIDE = "outside the folders that are open here (the setting data_folders opens others)"


def allowed_path(written: str, folders: Sequence[str], *, kind: str) -> str:
    """The path, once every link on the way is followed. A relative one is below the first folder. ToolError `kind`
    says why it cannot be opened."""
    path = written.removeprefix("file:").removeprefix("//")
    if not folders:
        raise ToolError(kind, f'"{written}" cannot be opened: {NO_FOLDER}')
    # A native library would cut the path there, and open another file than the one that was checked.
    if "\x00" in path:
        raise ToolError(kind, "a path cannot hold a NUL character")
    roots = [os.path.realpath(folder) for folder in folders]
    place = os.path.realpath(os.path.join(roots[0], path))
    if not any(os.path.commonpath([root, place]) == root for root in roots):
        raise ToolError(kind, f'"{written}" is {OUTSIDE}')
    return place


def missing_folder_warnings(folders: Sequence[str]) -> list[str]:
    """What to say of data folders that are not there. They are not made: a misspelt one, or a volume that is not
    mounted, would become an empty folder that swallows what tasks write."""
    return [
        f"the data folder {os.path.abspath(folder)} is not there, so tasks cannot open files in it: make it, or mend "
        f"data_folders"
        for folder in folders
        if not os.path.isdir(folder)
    ]
