"""Confinement: what the kernel still lets this process reach, for native libraries that ask nobody else.

DuckDB keeps to the folders it is told, but some of its extensions open files and connections by themselves: that of
SQLite opens any file, that of PostgreSQL connects to any address that SQL names, that of Delta reads logs in its own
way. A child process that loads one confines itself. Linux only: Landlock for files (Linux 5.13), seccomp for
connections. Neither can be undone, so the process serves one call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from contextlib import suppress

from noetl.base.errors import ToolError

_NO_NEW_PRIVILEGES = 38  # of prctl
_SET_FILTER, _ALL_THREADS = 1, 1  # of seccomp
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, the same on every processor
_GIVE_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_ALL_OF_FIRST = (1 << 13) - 1  # what the first version of Landlock rules over
_OF_FILES = 0b1_0000_0000_0000_0111 | 1 << 14  # run, write, read, truncate: all that can be said of a single file
# Later versions rule over more: 2 moving files between folders, 3 cutting them short, 5 device files.
_ADDED = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}

# By processor: the architecture of a system call, the number of `seccomp`, and those of `socket` and `io_uring_setup`.
_CALLS = {"x86_64": (0xC000003E, 317, 41, 425), "aarch64": (0xC00000B7, 277, 198, 425)}
_X32 = 0x40000000  # numbers from here on are those of a second table of x86_64
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | errno.EPERM


def confine_files(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Open nothing from now on but what is in these files and folders. ToolError where the kernel cannot do that.
    Threads that are there already are not held to it: call it before a library starts some."""
    version = _syscall(_CREATE_RULESET, None, 0, _GIVE_VERSION)
    if version < 1:
        raise _unavailable("files", "Landlock, which Linux has since 5.13")
    all_rights = _ALL_OF_FIRST | sum(right for since, right in _ADDED.items() if version >= since)
    rules = _syscall(_CREATE_RULESET, struct.pack("Q", all_rights), 8, 0)
    try:
        for places, rights in ((readable, _READ_FILE | _READ_FOLDER), (writable, all_rights)):
            for place in places:
                with suppress(FileNotFoundError):  # what is not there cannot be opened either
                    _allow(rules, place, rights)
        if _give_up_privileges() or _syscall(_RESTRICT_SELF, rules, 0):
            raise _unavailable("files", "Landlock")
    finally:
        os.close(rules)


def _allow(rules: int, place: str, rights: int) -> None:
    opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = rights if os.path.isdir(place) else rights & _OF_FILES
        if _syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, opened), 0):
            raise _unavailable("files", "Landlock")
    finally:
        os.close(opened)


def forbid_sockets() -> None:
    """Make no connection from now on, in any thread; those that are open stay. ToolError where the kernel cannot do
    that."""
    if platform.system() != "Linux" or platform.machine() not in _CALLS:
        raise _unavailable("connections", "seccomp, which Linux has")
    architecture, seccomp, *forbidden = _CALLS[platform.machine()]
    # Jumps are counted from the next instruction; the last two are "allow" and "deny".
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 0, len(forbidden) + 3, architecture), (_LOAD, 0, 0, 0)]
    program.append((_AT_LEAST, len(forbidden) + 1, 0, _X32))
    program += [(_EQUAL, len(forbidden) - at, 0, number) for at, number in enumerate(forbidden)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    described = struct.pack("HP", len(program), ctypes.addressof(instructions))
    if _give_up_privileges() or _syscall(seccomp, _SET_FILTER, _ALL_THREADS, described):
        raise _unavailable("connections", "seccomp")


def _unavailable(what: str, needed: str) -> ToolError:
    message = f"the kernel of this worker cannot keep a process from {what} it was not given: that takes {needed}"
    return ToolError("sandbox.unavailable", message)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _give_up_privileges() -> int:
    """Programs that this process starts get no more rights than it has: whoever confines itself must say so first."""
    nothing = ctypes.c_ulong(0)
    return int(_libc().prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), nothing, nothing, nothing))


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    words = [ctypes.c_ulong(one) if isinstance(one, int) else ctypes.c_char_p(one) for one in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *words)) if platform.system() == "Linux" else -1
