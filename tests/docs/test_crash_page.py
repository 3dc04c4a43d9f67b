"""The page on crashes is true: its playbook is killed while it runs, resumed, and loads no file twice."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, ROOT, pattern
from tests.forked import NOETL, Popen, run

PAGE = (ROOT / "docs" / "runtime" / "crashes.md").read_text("utf-8")
CONSOLES = [block[3] for block in FENCE.finditer(PAGE) if block[1] == "text"]


def documented_output(command: str) -> str:
    """What the page shows below a command."""
    return next(text.split(f"$ {command}\n")[1].split("\n$ ")[0] for text in CONSOLES if f"$ {command}\n" in text)


@pytest.mark.req("DOC-14")
@pytest.mark.timeout(400)
def test_the_killed_import_goes_on_where_it_was(tmp_path: Path) -> None:
    playbook = next(block[3] for block in FENCE.finditer(PAGE) if block[1] == "yaml")
    (tmp_path / "import.yaml").write_text(playbook)
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home"), "NO_COLOR": "1", "COLUMNS": "110"}

    def output(command: str) -> str:
        words = shlex.split(command)
        done = run([*NOETL, *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return str(done.stdout + done.stderr).rstrip() + "\n"

    running = Popen(
        [*NOETL, "run", "import.yaml"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while "load b" not in output("noetl logs last"):
        assert running.poll() is None
        time.sleep(0.2)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    status, resumed, logs = (output(f"noetl {words}") for words in ("status last", "run -q --resume last", "logs last"))

    # Times, ids and the number of files that were loaded are those of one run.
    shown = documented_output("noetl status last")
    expected = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\d \S+|\d+\.\d+|\d+", "…", shown)
    expected = re.sub(r"^  ▸ start.*$", "  ▸ start             … of …", expected, flags=re.M)
    assert re.fullmatch(pattern(expected), status), status
    assert resumed == documented_output("noetl run -q --resume last").rstrip() + "\n"
    assert logs == documented_output("noetl logs last").rstrip() + "\n"
