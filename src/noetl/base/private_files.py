"""Private files: only their owner can read them, independent of the umask of the process.

An existing file keeps its permissions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        try:
            os.mkdir(one, FOLDER_MODE)
        except FileExistsError:
            continue  # another process has created it meanwhile
        os.chmod(one, FOLDER_MODE)  # the umask may have removed rights


def make_file(path: Path) -> None:
    """Make an empty file, if there is none."""
    try:
        # With its rights from the start. The umask can only remove rights.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, FILE_MODE)
    finally:
        os.close(handle)


def create(path: Path) -> BinaryIO:
    """Open a file for writing; existing content is discarded."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    # An existing file keeps its rights when it is opened, so they are set here before anything private is written.
    os.fchmod(handle, FILE_MODE)
    return os.fdopen(handle, "wb")


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Let an error about a temporary file beside `path` name `path`, which is what the user has asked for."""
    try:
        yield
    except OSError as problem:
        if problem.filename is not None:
            problem.filename = str(path)
        raise


def others_may_read(path: Path) -> int | None:
    """The mode of a file that other users can read or write, None for one that is private."""
    mode = path.stat().st_mode & 0o777
    return mode if mode & _OTHERS else None
