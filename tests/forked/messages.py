"""The protocol between a test and the template of its processes: one request with the files of the new process, one
answer with its number, and a pipe of its own through which the template reports its exit status."""

from __future__ import annotations

import os
import socket

import msgspec

LARGEST = 1 << 20


class Request(msgspec.Struct, frozen=True):
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    is_session_leader: bool
    """Whether the process begins a session of its own."""


def send(to: socket.socket, request: Request, files: tuple[int, int, int, int]) -> int:
    """The number of the new process. `files` are its standard ones, and the pipe that tells its end."""
    socket.send_fds(to, [msgspec.msgpack.encode(request)], files)
    return int(to.recv(64))


def receive(peer: socket.socket) -> tuple[Request, list[int]] | None:
    """The next request; None when the test has ended."""
    data, files, _, _ = socket.recv_fds(peer, LARGEST, 4)
    return (msgspec.msgpack.decode(data, type=Request), list(files)) if data else None


def tell_end(pipe: int, status: int) -> None:
    os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(pipe)
