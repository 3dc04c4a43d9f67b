"""The process as a test sees it: a `subprocess.Popen` whose program is forked where it is a `noetl`."""

from __future__ import annotations

import functools
import os
import re
import select
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, AnyStr

from tests.forked.messages import Request, send
from tests.servers.at_end import stop_at_end

NOETL = (sys.executable, "-m", "noetl.cli.main")
ROOT = Path(__file__).parents[2]
EXECUTES = "NOETL_TESTS_EXECUTE"
_PLAIN = re.compile(r"[^|&;<>$`*?()~#\\\n]*\Z")  # nothing in it that a shell would read otherwise
# Environment variables read by the interpreter or during imports: with another value than the template was started with
# a process is executed.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "NOETL_CRASH_")


class Template:
    """The process that others are forked from."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.forked.template", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.environment = read_at_start(dict(os.environ))
        self._turn = threading.Lock()

    def fork(self, request: Request, files: tuple[int, int, int, int]) -> int:
        with self._turn:
            return send(self._ours, request, files)

    def end(self) -> None:
        self._ours.close()
        self._process.wait()


_first = threading.Lock()


@functools.cache
def _made() -> Template:
    made = Template()
    stop_at_end(made.end)
    return made


def template() -> Template:
    with _first:
        return _made()


def read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


class Popen(subprocess.Popen[AnyStr]):
    """`end` is the pipe in which the template writes how a forked process ended."""

    end: int | None = None

    def _execute_child(self, *given: Any) -> None:
        """As in the standard library, whose places of arguments these are."""
        args, executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell = given[:10]
        pipes = given[10:16]
        _, gid, gids, uid, umask, start_new_session, process_group = given[16:]
        is_plain = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and (umask, process_group) == (-1, -1)
        words = [] if isinstance(args, str | bytes | os.PathLike) else [os.fspath(word) for word in args]
        environment = dict(os.environ if env is None else env)
        if not is_plain or shell or pass_fds or tuple(words[:3]) != NOETL or not _is_forked(environment):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        request = Request(words[3:], environment, os.path.abspath(cwd or "."), bool(start_new_session))
        standard = [at if pipe == -1 else pipe for at, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.end, written_end = os.pipe()
        try:
            self.pid = template().fork(request, (standard[0], standard[1], standard[2], written_end))
        finally:
            os.close(written_end)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self.end is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc, no-any-return]
        return self._look(0)

    def _wait(self, timeout: float | None) -> int:
        if self.end is None and self.returncode is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        if self._look(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _look(self, timeout: float | None) -> int | None:
        """Its exit status, if it is reported within the time."""
        end = self.end
        if self.returncode is None and end is not None and select.select([end], [], [], timeout)[0]:
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    self.returncode = int(os.read(end, 64))
                    os.close(end)
        return self.returncode


def _is_forked(environment: dict[str, str]) -> bool:
    return not os.environ.get(EXECUTES) and read_at_start(environment) == template().environment


def run(
    args: list[str],
    *,
    input: AnyStr | None = None,  # noqa: A002
    timeout: float | None = None,
    check: bool = False,
    **how: Any,
) -> subprocess.CompletedProcess[AnyStr]:
    """As in the standard library."""
    if how.pop("capture_output", False):
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        how["stdin"] = subprocess.PIPE
    with Popen[AnyStr](args, **how) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess[AnyStr](process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def run_line(
    line: str, *, folder: Path, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """A line as a reader types it: a plain `noetl` is forked, everything else is left to the shell."""
    words = shlex.split(line) if _PLAIN.match(line) else []
    how: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": timeout}
    if words[:1] == ["noetl"]:
        return run([*NOETL, *words[1:]], **how)
    return subprocess.run(line, shell=True, check=False, **how)
