"""The rest of a process's output until it ends, after some of it was read."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import IO


def last_words(process: subprocess.Popen[str], *, timeout_s: float = 60) -> tuple[str, str]:
    """The rest of its output and of its errors. `communicate` would leave out what `readline` has read ahead."""
    with ThreadPoolExecutor(2) as readers:
        said = [readers.submit(_rest, stream) for stream in (process.stdout, process.stderr)]
        try:
            process.wait(timeout_s)
            return said[0].result(timeout_s), said[1].result(timeout_s)
        except BaseException:
            process.kill()  # or reading would never end
            raise


def _rest(stream: IO[str] | None) -> str:
    if stream is None:
        return ""
    with stream:
        return stream.read()
