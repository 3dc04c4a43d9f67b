"""A run of the CLI that a test holds at its second step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import forked
from tests.cli.running import call
from tests.engine_script import playbook
from tests.process_output import last_words


class Gated:
    """A run whose second step waits until the test lets it through."""

    def __init__(self, folder: Path) -> None:
        self.gate, self.db = folder / "gate", folder / "s.db"
        code = f"import os, time\nwhile not os.path.exists({str(self.gate)!r}): time.sleep(0.01)"
        file = folder / "play.yaml"
        file.write_text(
            playbook(
                f"""
workflow:
  - step: start
    tool: {{kind: python, code: "result = 1"}}
    next: {{arcs: [{{step: wait}}]}}
  - step: wait
    tool: {{name: gate, kind: python, code: {json.dumps(code)}}}
    next: {{arcs: [{{step: last}}]}}
  - step: last
    tool: {{kind: python, code: "result = 'through'"}}
"""
            )
        )
        self.running = forked.Popen(
            [*forked.NOETL, "run", str(file), "--db", str(self.db)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, *words: str) -> None:
        assert self.running.stderr is not None
        while not all(word in (line := self.running.stderr.readline()) for word in words):
            assert line, "the run ended before it was interrupted"

    def __enter__(self) -> Gated:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running.poll() is None:
            self.running.kill()
            self.running.communicate(timeout=500)

    def end(self) -> tuple[int, str]:
        _, stderr = last_words(self.running)
        return self.running.returncode, stderr

    def resume(self, *arguments: str) -> str:
        self.gate.touch()
        code, stdout, stderr = call(*(arguments or ("run", "--db", str(self.db), "--resume", "last")))
        assert code == 0, stderr
        return stdout.strip()
