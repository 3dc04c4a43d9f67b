"""Real `noetl` processes, each the leader of its own session, so that a test ends everything it has begun."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import forked
from tests.engine_script import playbook
from tests.process_output import last_words

LONGEST_S = 100.0


class Ended(msgspec.Struct, frozen=True):
    """How a process ended and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def sentence(self) -> str:
        """The last line for the user."""
        return self.stderr.strip().splitlines()[-1] if self.stderr.strip() else ""

    @property
    def problem(self) -> str:
        """The line that says what went wrong."""
        return next((line for line in self.stderr.splitlines() if line.startswith("error: ")), "")

    def json(self) -> Any:
        return json.loads(self.stdout)


@contextmanager
def begun(
    *arguments: str,
    cwd: Path,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    file_bytes: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A `noetl` at work in `cwd`; it and its tools are gone when the block ends. `file_bytes` bounds its files, as a
    full disk would; it compiles nothing then, since the interpreter would leave half a module for all others."""
    bounds = {} if file_bytes is None else {"PYTHONDONTWRITEBYTECODE": "1"}
    process = forked.Popen(
        [*prefix, *forked.NOETL, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "NOETL_HOME": str(cwd / "home"), **bounds, **(environment or {})},
        start_new_session=True,
        preexec_fn=None if file_bytes is None else lambda: _bound_files(file_bytes),
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _bound_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def ended(process: subprocess.Popen[str]) -> Ended:
    stdout, stderr = last_words(process, timeout_s=LONGEST_S)
    return Ended(process.returncode, stdout, stderr)


def noetl(*arguments: str, cwd: Path, **how: Any) -> Ended:
    """One command from its beginning to its end."""
    with begun(*arguments, cwd=cwd, **how) as process:
        return ended(process)


def written(folder: Path, workflow: str, name: str = "play.yaml") -> str:
    """A playbook in `folder`; gives its file name."""
    (folder / name).write_text(playbook(workflow))
    return name


def powerless() -> tuple[str, ...]:
    """A command prefix that makes file permissions apply; root ignores them otherwise."""
    if os.getuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root ignores the permissions of files, and there is no setpriv to give that up")
    return (setpriv, "--bounding-set=-dac_override,-dac_read_search")
