"""The screen on a real terminal, and the lines without one: what a person at either would see."""

from __future__ import annotations

import codecs
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noetl.cli.live_screen import Screen
from tests.engine_script import playbook

LOOP = """
workflow:
  - step: start
    tool: {name: greet, kind: python, code: "print('good morning')"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(1000) | list }}", iterator: x, spec: {mode: parallel, max_in_flight: 8}}
    tool: {name: t, kind: noop, args: {x: "{{ iter.x }}"}, spec: {place: worker}}
    next: {arcs: [{step: finish}]}
  - step: finish
    tool: {kind: noop, args: {said: bye}}
"""
WAITING = "workflow: [{step: start, tool: {kind: python, code: 'import time; time.sleep(600)'}}]"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class Terminal:
    """A run with a terminal for its standard error."""

    def __init__(self, folder: Path, text: str, *options: str, **environment: str) -> None:
        (folder / "play.yaml").write_text(playbook(text))
        self._master, slave = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "noetl.cli.main", "run", str(folder / "play.yaml"), "--memory", *options],
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            env={**clean, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24", "PYTHONUTF8": "1", **environment},
        )
        os.close(slave)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a piece may end in the middle of a character

    def read(self, until: str | None = None) -> str:
        """What it showed, to its end or until something is there."""
        while until is None or until not in self.shown:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            self.shown += self._decoder.decode(piece)
        return self.shown

    def end(self) -> tuple[int, str]:
        self.read()
        stdout, _ = self.process.communicate(timeout=500)
        os.close(self._master)
        return self.process.returncode, stdout

    def stayed(self) -> list[str]:
        """The lines as they are left when everything drawn over is gone: what follows the last erasure of each."""
        text = re.sub(r"\x1b\[[0-9;?]*[mhl]", "", self.shown)
        lines = [line.rpartition("\x1b[2K")[2] for line in re.sub(r"\x1b\[1A", "", text).replace("\r", "").split("\n")]
        return [line.rstrip() for line in lines]


@pytest.mark.req("CLI-02")
def test_on_a_terminal_finished_steps_stay_and_bars_are_drawn_below(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, LOOP)
    code, stdout = terminal.end()
    stayed = terminal.stayed()

    assert code == 0
    assert stdout.split() == ["{", '"said":', '"bye"', "}"]
    assert "  start             │ good morning" in stayed
    assert [line for line in stayed if line.startswith("✓ start             done in ")]
    assert [line for line in stayed if line.startswith("✓ each              done, 1,000 of 1,000 iterations in ")]
    assert [line for line in stayed if line.startswith("✓ finish")]
    assert terminal.shown.rindex(SHOW) > terminal.shown.rindex(HIDE)
    assert "\x1b[2J" not in terminal.shown, "the screen is never cleared"


def test_frames_follow_the_clock_and_not_the_iterations(tmp_path: Path) -> None:
    began = time.monotonic()
    terminal = Terminal(tmp_path, LOOP)
    terminal.end()
    most = 10 + (time.monotonic() - began) / Screen.period_s  # what scrolls up draws what is below anew

    assert terminal.shown.count(" of 1,000 (") <= most


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_build_log_gets_plain_lines(tmp_path: Path, environment: dict[str, str]) -> None:
    terminal = Terminal(tmp_path, LOOP, **environment)
    code, _ = terminal.end()

    assert code == 0
    assert "\x1b[2K" not in terminal.shown
    assert HIDE not in terminal.shown
    assert "▸ loop of 1,000" in terminal.shown


def test_json_output_keeps_the_live_screen_on_stderr(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, LOOP, "-o", "json")
    code, stdout = terminal.end()

    assert code == 0
    assert stdout.startswith("{")
    assert [line for line in terminal.stayed() if line.startswith("✓ each ")]


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_live_screen_restores_the_cursor(tmp_path: Path, times: int) -> None:
    terminal = Terminal(tmp_path, WAITING)
    terminal.read(until="runs start_task")
    os.kill(terminal.process.pid, signal.SIGSTOP)

    for number in (signal.SIGINT, signal.SIGTERM)[:times]:
        os.kill(terminal.process.pid, number)
    os.kill(terminal.process.pid, signal.SIGCONT)
    code, _ = terminal.end()

    assert code == 130
    assert terminal.shown.rindex(SHOW) > terminal.shown.rindex(HIDE)
    assert "interrupted" in terminal.shown
