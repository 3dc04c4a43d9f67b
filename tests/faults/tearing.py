"""Simulated power cuts of a file store: data being written is partly lost; flushed data is complete.

A commit appends to the log beside the file (WAL) and flushes it. A checkpoint copies the log's pages into the file, and
the log restarts over its old bytes. So there are two places at which the current can fail: in the log, of which a
prefix is new and the rest is missing, empty or old; and in a checkpoint, when any of the file's sectors are new and the
log is whole. Nothing here cuts a process: the files are taken between two commits of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from noetl.events.envelope import Event
from noetl.store.contract import Commit
from noetl.store.sqlite.store import SqliteStore

SECTOR = 512
HEAD, FRAME_HEAD = 32, 24  # of the log, and of each page in it (sqlite.org/walformat.html)
Log = list[Event]


class Writing(msgspec.Struct):
    """The time between two checkpoints: the file as it was all that time, the log's old bytes, and its new ones at the
    end. `ends` are the sizes of the log after each commit, with the events there were then."""

    file: bytes
    old: bytes
    log: bytes = b""
    ends: list[tuple[int, Log]] = []


class Torn(msgspec.Struct, frozen=True):
    """Two files, and the log of events that must be in them."""

    what: str
    file: bytes
    log: bytes
    events: Log

    def put(self, path: Path) -> None:
        path.write_bytes(self.file)
        path.with_name(f"{path.name}-wal").write_bytes(self.log)


class Watched(SqliteStore):
    """A store that is looked at after each commit. `checkpoint_after` so many, its log goes into the file."""

    path: Path
    checkpoint_after = 0

    def watch(self, path: Path, *, checkpoint_after: int) -> None:
        self.path, self.checkpoint_after = path, checkpoint_after
        self.writings = [Writing(file=path.read_bytes(), old=b"")]
        self.checkpoints: list[tuple[bytes, bytes, bytes, Log]] = []  # file before and after, the log, the events
        self._seen: Log = []
        self._note()

    async def commit(self, commits: Sequence[Commit]) -> None:
        await super().commit(commits)
        self._seen = [*self._seen, *(event for commit in commits for event in commit.events)]
        self._note()
        if sum(len(one.ends) for one in self.writings) == self.checkpoint_after:
            self._checkpoint()

    def _note(self) -> None:
        writing, body = self.writings[-1], _beside(self.path).read_bytes()
        writing.log = body[: _written(body)]
        writing.ends.append((len(writing.log), self._seen))

    def _checkpoint(self) -> None:
        before, log = self.path.read_bytes(), _beside(self.path).read_bytes()
        [[busy, _, _]] = self._db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        assert not busy
        after = self.path.read_bytes()
        self.checkpoints.append((before, after, log, self._seen))
        self.writings.append(Writing(file=after, old=log, ends=[(0, self._seen)]))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _written(body: bytes) -> int:
    """The length of the new part of a log: frames with the salts of its header. A restarted log has old ones after
    them."""
    page, salts, at = int.from_bytes(body[8:12], "big"), body[16:24], HEAD
    while body[at + 8 : at + 16] == salts:
        at += FRAME_HEAD + page
    return at


def cut_log(store: Watched, number: int, dice: Random) -> Torn:
    """The current failed while the log was written, or when it had just been. Every other cut is at the end of a
    commit, of all of them in turn, or a byte beside it."""
    ends = [(one, end) for one in store.writings for end, _ in one.ends if end]
    writing, at = ends[number // 2 % len(ends)]
    at = dice.randrange(len(writing.log) + 1) if number % 2 else min(at + dice.choice((-1, 0, 1)), len(writing.log))
    tails = {"nothing": b"", "zeros": b"\0" * (len(writing.log) - at), "old bytes": writing.old[at:]}
    tail = dice.choice(list(tails))
    torn = writing.log[:at] + tails[tail]
    kept = at
    while kept < min(len(torn), len(writing.log)) and torn[kept] == writing.log[kept]:
        kept += 1  # the bytes to write were there already
    events = [seen for end, seen in writing.ends if end <= kept or seen is writing.ends[0][1]][-1]
    what = f"log {store.writings.index(writing)}, cut at {at} of {len(writing.log)}, then {tail}"
    return Torn(what, writing.file, torn, events)


def cut_checkpoint(store: Watched, dice: Random) -> Torn:
    """The current failed while the log was copied into the file: the log had been flushed, the file had not."""
    before, after, log, events = dice.choice(store.checkpoints)
    before = before.ljust(len(after), b"\0")
    share, file = dice.random(), bytearray(before)
    for first in range(0, len(after), SECTOR):
        if dice.random() < share:
            file[first : first + SECTOR] = after[first : first + SECTOR]
    return Torn(f"checkpoint, {share:.0%} of its sectors", bytes(file), log, events)
