"""A clock that is wrong, for a server or worker of a cluster."""

from __future__ import annotations

from pathlib import Path

WRONG = """
import time
_right = time.time
def _believed():
    with open({path!r}) as file:
        return _right() + float(file.read() or 0)
time.time = _believed
"""


class WrongClock:
    """`environment` makes a process use it; `set` changes its offset."""

    def __init__(self, folder: Path, ahead_s: float) -> None:
        folder.mkdir()
        self._file = folder / "ahead_s"
        self.set(ahead_s)
        (folder / "sitecustomize.py").write_text(WRONG.format(path=str(self._file)))
        self.environment = {"PYTHONPATH": str(folder)}

    def set(self, ahead_s: float) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(ahead_s))
        fresh.replace(self._file)
