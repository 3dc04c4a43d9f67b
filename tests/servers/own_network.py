"""Runs a program in a network of its own that has nothing but loopback, and carries connections to one of its ports.

    python own_network.py PORT COMMAND…

For programs that use the address of the machine's interface, regardless of their configuration. A socket stays in the
network in which it was made: the one bound here first takes the connections of tests, those made later reach the
program.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NOT_HERE = 77  # the code it ends with where the system allows no network of its own
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_READ_FLAGS, _WRITE_FLAGS, _UP = 0x8913, 0x8914, 0x1


def leave_network() -> None:
    """A new user space comes with it, in which this process may change the new network; files keep their owner."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network of its own")
    Path("/proc/self/setgroups").write_text("deny")  # the system demands it before groups are mapped
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, _READ_FLAGS, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", asked)[1]
        fcntl.ioctl(any_socket, _WRITE_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the other end is gone, so this line is too
    finally:
        writer.close()


async def _serve(outer: socket.socket, command: list[str]) -> int:
    program = await asyncio.create_subprocess_exec(*command)
    port = outer.getsockname()[1]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))

    while program.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            break
    # It listens only now: a waiting test takes the first connection as the ready sign.
    server = await asyncio.start_server(connected, sock=outer)
    async with server:
        return await program.wait()


def main(port: str, *command: str) -> int:
    outer = socket.socket()
    outer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    outer.bind(("127.0.0.1", int(port)))
    try:
        leave_network()
    except OSError as problem:
        print(problem, file=sys.stderr)
        return NOT_HERE
    return asyncio.run(_serve(outer, list(command)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
