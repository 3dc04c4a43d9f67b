"""Files in the data folders that the operator has opened: the only ones a task's inputs may name. Also program texts
that lie in them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError

NO_FOLDER = (
    "no data folder is open here; whoever runs this worker opens one with data_folders in noetl.toml, or with "
    "NOETL_DATA_FOLDERS"
)
OUTSIDE = "outside the folders that are open here (the setting data_folders opens others)"
# No program that people write is longer; what is, is data in the wrong place.
MAX_BYTES = 1 << 20


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


# Script files: program texts that lie in files, for python, script and SQL tasks alike.
#
# They are read from the folders that the operator has opened and from no other, up to a size, and in a thread: a slow
# disk, or a file that is none, holds up nobody else.


async def read_script(uri: str, folders: Sequence[str], *, kind: str, **details: Any) -> str:
    """The text of the file. ToolError of `kind`, with `details`, says why it cannot be read."""
    try:
        return await asyncio.to_thread(_text, uri.removeprefix("file://"), folders)
    except _Unreadable as problem:
        raise ToolError(kind, str(problem), **details) from None


class _Unreadable(Exception):  # noqa: N818  it never leaves this module
    pass


def _text(written: str, folders: Sequence[str]) -> str:
    path = _allowed(written, folders)
    try:
        # Not blocking: to open a pipe would wait for somebody who writes to it. No link: it is followed already.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Unreadable(f"the script {path} is no regular file")
            body = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise _Unreadable(f"the script {path} cannot be read: {problem.strerror}") from None
    if len(body) > MAX_BYTES:
        raise _Unreadable(f"the script {path} is longer than {MAX_BYTES >> 20} MiB")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise _Unreadable(f"the script {path} is not UTF-8 text") from None


def _allowed(written: str, folders: Sequence[str]) -> Path:
    """The file, once every link on the way is followed, if it is in one of the folders."""
    if not folders:
        raise _Unreadable(f'the script "{written}" cannot be read: {NO_FOLDER}')
    roots = [Path(folder).resolve() for folder in folders]
    try:
        # Links are followed before the folder is compared, or a link inside an open folder would lead anywhere.
        path = (roots[0] / written).resolve()
    except (OSError, RuntimeError, ValueError):
        raise _Unreadable(f'the script "{written[:200]}" is no path of a file') from None
    if not any(path.is_relative_to(root) for root in roots):
        raise _Unreadable(f'the script "{written}" is {OUTSIDE}')
    return path
