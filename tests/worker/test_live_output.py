"""What tasks print while they run, on the worker's side: whole lines, masked, bounded, and never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from noetl.base.errors import BackendError
from noetl.base.redaction import Mask
from noetl.events.orders import OutputBatch, OutputChunk
from noetl.worker.live_output import HEAD, MAX_LINES, TAIL, OutputSender, TaskOutput

OF = OutputChunk(execution_id="x", order_id="o", lease_epoch=1, task="t", task_run_id="r")


class Server:
    """Keeps what is sent to it; `refuses` so many batches first."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses, self.batches = refuses, list[OutputBatch]()
        self.came = asyncio.Event()

    async def take(self, batch: OutputBatch) -> None:
        self.came.set()
        if self.refuses:
            self.refuses -= 1
            raise BackendError("nobody is there")
        self.batches.append(batch)

    @property
    def lines(self) -> list[str]:
        return [line for batch in self.batches for chunk in batch.chunks for line in chunk.lines]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.came.clear()
            await self.came.wait()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest_asyncio.fixture
async def sender(server: Server) -> AsyncIterator[OutputSender]:
    sender = OutputSender("w", server.take)
    yield sender
    await sender.close()


async def test_complete_lines_are_sent_and_a_partial_line_waits_for_its_end(
    server: Server, sender: OutputSender
) -> None:
    output = sender.output(OF, Mask())
    output.write(b"one\r\ntw")
    output.write("o é".encode()[:3])
    output.write("é".encode()[1:] + b"\n50 %\r75 %\rend")
    await server.until(lambda: len(server.lines) >= 4)

    assert server.lines == ["one", "two é", "50 %", "75 %"]


def test_the_report_keeps_the_beginning_and_the_end_of_a_long_output() -> None:
    output = TaskOutput(OF, Mask())
    for number in range(5_000):
        output.write(b"line %d\n" % number)
    printed = output.printed()

    assert printed is not None
    assert len(printed) <= HEAD + TAIL + 100
    first, last = printed.split("\n", 1)[0], printed.rsplit("\n", 1)[1]
    assert (first, last) == ("line 0", "line 4999")
    kept = sum(line.startswith("line ") for line in printed.split("\n"))
    assert f"\n… {5_000 - kept} lines left out …\n" in printed


@pytest.mark.req("KEY-06")
def test_the_reported_output_contains_no_secret_and_no_part_of_one() -> None:
    mask = Mask()
    mask.learn(["correct-horse-battery"])
    output = TaskOutput(OF, mask)
    output.write(b"token correct-horse-battery\nagain correct-horse-")

    assert output.printed() == "token ***\nagain "


async def test_both_streams_are_distinguished_and_kept_in_order(server: Server, sender: OutputSender) -> None:
    output = sender.output(OF, Mask())
    output.write(b"a\nb\n")
    output.write(b"no\n", "stderr")
    output.write(b"c\n")
    await server.until(lambda: len(server.lines) >= 4)

    chunks = [chunk for batch in server.batches for chunk in batch.chunks]
    assert [(chunk.stream, chunk.lines) for chunk in chunks] == [
        ("stdout", ("a", "b")),
        ("stderr", ("no",)),
        ("stdout", ("c",)),
    ]


@pytest.mark.req("KEY-06")
async def test_a_secret_is_masked_even_if_split_over_chunks_or_lines_or_learned_late(
    server: Server, sender: OutputSender
) -> None:
    mask = Mask()
    mask.learn(["correct-horse", "first line of a key\nsecond line of a key"])
    output = sender.output(OF, mask)
    output.write(b"password correct-")
    output.write(b"horse\nfirst line of a key\n")
    output.write(b"second line of a key\nlater ba")
    mask.learn(["battery-staple"])
    output.write(b"ttery-staple\nshown corr\n")
    await server.until(lambda: "shown corr" in server.lines)

    text = "\n".join(server.lines)
    assert text == "password ***\n***\nlater ***\nshown corr"


@pytest.mark.req("KEY-06")
async def test_a_secret_truncated_by_a_program_is_masked(server: Server, sender: OutputSender) -> None:
    mask = Mask()
    mask.learn(["correct-horse-battery-staple"])
    output = sender.output(OF, mask)
    output.write(b"value correct-horse-b...\nend\n")
    await server.until(lambda: "end" in server.lines)

    assert server.lines[0].startswith("value ***")


async def test_very_long_output_is_bounded_and_dropped_lines_are_counted(server: Server, sender: OutputSender) -> None:
    output = sender.output(OF, Mask())
    for number in range(MAX_LINES * 3):
        output.write(b"line %d\n" % number)
    await server.until(lambda: bool(server.lines))

    first = server.batches[0].chunks[0]
    assert (len(first.lines), first.dropped) == (MAX_LINES, MAX_LINES * 2)
    assert first.lines[-1] == f"line {MAX_LINES * 3 - 1}"


async def test_lines_that_cannot_be_sent_are_counted_and_block_nothing() -> None:
    server = Server(refuses=1)
    sender = OutputSender("w", server.take)
    output = sender.output(OF, Mask())
    output.write(b"lost\n")
    await server.until(lambda: server.refuses == 0)
    await asyncio.sleep(0)
    output.write(b"there\n")
    await server.until(lambda: bool(server.lines))
    await sender.close()

    assert [(chunk.lines, chunk.dropped) for chunk in server.batches[0].chunks] == [(("there",), 1)]


async def test_nothing_is_sent_for_an_ended_task_run(server: Server, sender: OutputSender) -> None:
    over, other = sender.output(OF, Mask()), sender.output(OF, Mask())
    over.write(b"in its outcome\n")
    over.end()
    over.write(b"too late\n")
    other.write(b"running\n")
    await server.until(lambda: bool(server.lines))

    assert server.lines == ["running"]
