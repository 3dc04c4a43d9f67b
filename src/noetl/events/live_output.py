"""What tasks print while they run, on its way from a worker to who looks. It is never stored: the log of a task run is
in its `task.processed`, and live lines are best effort."""

from __future__ import annotations

from typing import Literal

import msgspec

OutputStream = Literal["stdout", "stderr"]
MAX_BATCH_BYTES = 512 * 1024  # of one request of a worker


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines that one task run printed, under the lease it runs under. `dropped` lines before them were left out."""

    execution_id: str
    order_id: str
    lease_epoch: int
    task: str
    task_run_id: str
    path: tuple[int, ...] = ()
    attempt: int = 1
    stream: OutputStream = "stdout"
    lines: tuple[str, ...] = ()
    dropped: int = 0


class OutputBatch(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    chunks: tuple[OutputChunk, ...]
