"""Confinement: a process restricts the files and connections that the kernel lets it open.

DuckDB respects its allowed folders, but some of its extensions open files and connections themselves. The SQLite
extension opens any file, the PostgreSQL extension connects to any address in the SQL, the Delta extension reads logs
with its own code. A child process that loads one confines itself first. Linux only: Landlock for files (since 5.13),
seccomp for connections. Neither can be undone, so such a process serves one call.
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

# Constants of the kernel's interface, which Python does not name.
_NO_NEW_PRIVILEGES = 38  # of prctl
_SET_FILTER, _ALL_THREADS = 1, 1  # of seccomp
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, the same on every processor
_RETURN_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_FIRST_VERSION_RIGHTS = (1 << 13) - 1  # the rights that the first version of Landlock controls
_FILE_RIGHTS = (
    0b1_0000_0000_0000_0111 | 1 << 14
)  # run, write, read, truncate: the kernel refuses others for a single file
# Later versions control more: 2 moving files between folders, 3 truncating, 5 device files. A right that the kernel
# does not know makes it refuse the whole ruleset.
_ADDED_RIGHTS = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}

# By processor: the architecture of a system call, the number of `seccomp`, and those of `socket` and `io_uring_setup`.
_CALLS = {"x86_64": (0xC000003E, 317, 41, 425), "aarch64": (0xC00000B7, 277, 198, 425)}
_X32 = 0x40000000  # x86_64 has a second table of system calls with numbers from here on
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | errno.EPERM


def confine_files(readable: Iterable[str], writable: Iterable[str]) -> None:
    """From now on this process can open only these files and folders. Raises ToolError if the kernel cannot do that.
    Running threads are not confined: call it before a library starts threads."""
    version = _syscall(_CREATE_RULESET, None, 0, _RETURN_VERSION)
    if version < 1:
        raise _unavailable("files", "Landlock, which Linux has since 5.13")
    all_rights = _FIRST_VERSION_RIGHTS | sum(right for since, right in _ADDED_RIGHTS.items() if version >= since)
    rules = _syscall(_CREATE_RULESET, struct.pack("Q", all_rights), 8, 0)
    try:
        for places, rights in ((readable, _READ_FILE | _READ_FOLDER), (writable, all_rights)):
            for place in places:
                with suppress(FileNotFoundError):  # a missing file needs no right: it cannot be opened
                    _allow(rules, place, rights)
        if _give_up_privileges() or _syscall(_RESTRICT_SELF, rules, 0):
            raise _unavailable("files", "Landlock")
    finally:
        os.close(rules)


def _allow(rules: int, place: str, rights: int) -> None:
    opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = rights if os.path.isdir(place) else rights & _FILE_RIGHTS
        if _syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, opened), 0):
            raise _unavailable("files", "Landlock")
    finally:
        os.close(opened)


def forbid_sockets() -> None:
    """From now on no thread of this process can open a socket; open ones stay. Raises ToolError if the kernel cannot do
    that."""
    if platform.system() != "Linux" or platform.machine() not in _CALLS:
        raise _unavailable("connections", "seccomp, which Linux has")
    architecture, seccomp, *forbidden = _CALLS[platform.machine()]
    # A BPF program: (operation, jump if true, jump if false, operand). Jumps count from the next instruction; the last
    # two are "allow" and "deny". Calls of another architecture or of the x32 table are denied, since their numbers
    # mean other calls. io_uring is denied because it opens sockets without the call `socket`.
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 0, len(forbidden) + 3, architecture), (_LOAD, 0, 0, 0)]
    program.append((_AT_LEAST, len(forbidden) + 1, 0, _X32))
    program += [(_EQUAL, len(forbidden) - at, 0, number) for at, number in enumerate(forbidden)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    program_header = struct.pack("HP", len(program), ctypes.addressof(instructions))
    if _give_up_privileges() or _syscall(seccomp, _SET_FILTER, _ALL_THREADS, program_header):
        raise _unavailable("connections", "seccomp")


def _unavailable(what: str, needed: str) -> ToolError:
    message = f"the kernel of this worker cannot restrict the {what} of a process: that needs {needed}"
    return ToolError("sandbox.unavailable", message)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _give_up_privileges() -> int:
    """Let programs that this process starts gain no rights. The kernel requires it before a process confines itself."""
    nothing = ctypes.c_ulong(0)
    return int(_libc().prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), nothing, nothing, nothing))


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    words = [ctypes.c_ulong(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *words)) if platform.system() == "Linux" else -1
