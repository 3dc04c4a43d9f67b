"""What tasks print while they run: from a worker to whoever looks, in memory, bounded, masked, and best effort."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.control.views.live_output import MAX_LINES
from noetl.operations.administration_shapes import Role
from tests.server.event_streams import streaming
from tests.server.live import live
from tests.server.output_batches import chunk, tell, texts
from tests.server.talking import talking
from tests.server.worker_turns import begun, done, starting, turn

PRINTING = """
workload: {{ gate: "" }}
keychain:
  - {{ name: key, kind: env, var: LIVE_OUTPUT_TOKEN }}
workflow:
  - step: start
    tool:
      - name: load
        kind: python
        args: {{ token: "{{{{ keychain.key }}}}", gate: "{gate}" }}
        code: |
          import pathlib, sys, time
          print("reading 1 of 2")
          print("with " + token[:7], end="")
          print(token[7:], file=sys.stderr)
          while not pathlib.Path(gate).exists():
              time.sleep(0.01)
          print("reading 2 of 2")
"""


@pytest.mark.req("KEY-06")
async def test_masked_task_output_is_visible_live_and_then_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVE_OUTPUT_TOKEN", "correct-horse-battery")
    gate = tmp_path / "gate"
    async with live(workers=1) as (_, client, talk):
        await talk.register(PRINTING.format(gate=gate))
        async with streaming(client, "/api/stream") as stream:
            execution_id = (await talk.start())["execution_id"]
            async for heard in stream:
                if heard.name == "output":
                    break
        while len(seen := await texts(talk, execution_id)) < 2:
            await asyncio.sleep(0.02)
        (task,) = (await talk.get(f"/api/executions/{execution_id}/output"))["tasks"]
        gate.touch()
        while (await talk.get(f"/api/executions/{execution_id}"))["finished_at"] is None:
            await asyncio.sleep(0.02)
        (line,) = (await talk.get(f"/api/executions/{execution_id}/logs"))["lines"]

        assert heard.data == {"execution_id": execution_id}
        assert seen == ["reading 1 of 2", "with ***"]
        assert (task["step"], task["task"], task["total"]) == ("start", "load", 2)
        assert line["task_run_id"] == task["task_run_id"]
        assert line["stdout"] == "reading 1 of 2\nwith ***\nreading 2 of 2\n"
        assert await texts(talk, execution_id) == []


async def test_a_reader_receives_new_lines_after_its_cursor_or_all_after_a_restart() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        await tell(worker, chunk(order, "one"))
        first = await talk.get(f"/api/executions/{execution_id}/output")
        await tell(worker, chunk(order, "two"))
        second = await talk.get(f"/api/executions/{execution_id}/output", params={"after": first["cursor"]})

        assert [line["text"] for line in first["tasks"][0]["lines"]] == ["one"]
        assert [line["text"] for line in second["tasks"][0]["lines"]] == ["two"]
        assert (first["is_whole"], second["is_whole"], second["tasks"][0]["total"]) == (True, False, 2)
        assert await texts(talk, execution_id, after="other.7") == ["one", "two"]
        assert await texts(talk, execution_id, after=f"other.7,{first['cursor']}") == ["two"]


async def test_logged_lines_are_no_longer_live() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        report, run_id = done(worker, order), f"{order.step_run_id}/work"
        await tell(worker, chunk(order, "one", task_run_id=run_id))
        before = await texts(talk, execution_id)
        await turn(worker, report)
        late = await tell(worker, chunk(order, "late", task_run_id=run_id))

        assert before == ["one"]
        assert late.status_code == 204
        assert await texts(talk, execution_id) == []


async def test_the_last_lines_of_a_cancelled_task_are_stored() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        await tell(worker, chunk(order, "one"))
        await talk.post(f"/api/executions/{execution_id}/cancel", {"reason": "too slow"})

        assert (await talk.get(f"/api/executions/{execution_id}"))["status"] == "cancelled"
        assert await texts(talk, execution_id) == ["one"]


async def test_a_task_restarted_after_a_lost_lease_keeps_its_first_lines_and_notes_it() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, lease_ttl_s=30.0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        await turn(worker, starting(worker, order))
        await tell(worker, chunk(order, "copied part 0", "copied part 1"))
        once = await talk.get(f"/api/executions/{execution_id}/explain")
        clock.advance(31)
        (again,) = (await turn(worker, capacity=1)).orders
        await turn(worker, starting(worker, again))
        await tell(worker, chunk(again, "copied part 0"))

        (task,) = (await talk.get(f"/api/executions/{execution_id}/output"))["tasks"]
        twice = await talk.get(f"/api/executions/{execution_id}/explain")
        [step, *_] = (await talk.get(f"/api/executions/{execution_id}/steps"))["steps"]

    told = [(line["text"], line["lease_epoch"]) for line in task["lines"]]
    assert told == [("copied part 0", 1), ("copied part 1", 1), ("copied part 0", 2)]
    assert task["total"] == 3
    assert once["sentences"][0].endswith("to report")
    assert once["tokens"][0]["task_starts"] == 1
    assert twice["sentences"][0].endswith(
        "to report; it was begun 2 times, since its worker was lost or cut off before"
    )
    assert twice["tokens"][0]["task_starts"] == 2
    bars = [(bar["start"], bar["status"], bar["worker_id"]) for bar in step["tasks"]]
    assert bars == [(1, "lost", worker.worker_id), (2, "running", worker.worker_id)]
    assert [bar["finished_at"] for bar in step["tasks"]] == [step["tasks"][1]["started_at"], None]


async def test_only_the_holder_of_an_order_can_send_lines() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        other = await talk.as_worker("w2")
        answers = [
            await tell(other, chunk(order, "not its order")),
            await tell(worker, chunk(order, "not its lease", lease_epoch=order.lease_epoch + 1)),
            await tell(worker, chunk(order, "nowhere", execution_id="0198c5c1-0000-7000-8000-000000000000")),
            await tell(other, chunk(order, "as another"), worker_id=worker.worker_id),
        ]

        assert [answer.status_code for answer in answers] == [204, 204, 204, 403]
        assert await texts(talk, execution_id) == []


async def test_a_chatty_task_keeps_the_newest_lines_and_counts_the_rest() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        for number in range(5):
            await tell(worker, chunk(order, *(f"{number}.{at}" for at in range(MAX_LINES // 2)), dropped=10))
        (task,) = (await talk.get(f"/api/executions/{execution_id}/output"))["tasks"]

        assert len(task["lines"]) == MAX_LINES
        assert task["lines"][-1]["text"] == f"4.{MAX_LINES // 2 - 1}"
        assert task["total"] == 5 * (MAX_LINES // 2 + 10)


async def test_an_oversized_batch_is_refused() -> None:
    async with talking(workers=0) as talk:
        worker, _ = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders

        assert (await tell(worker, chunk(order, "x" * 600_000))).status_code == 413


async def test_only_viewers_can_read_live_lines() -> None:
    async with talking(workers=0) as talk:
        worker, execution_id = await begun(talk)
        (order,) = (await turn(worker, capacity=1)).orders
        await tell(worker, chunk(order, "one"))
        viewer = await talk.as_role(Role.VIEWER)
        url = f"/api/executions/{execution_id}/output"

        assert (await viewer.get(url)).json()["tasks"][0]["lines"][0]["text"] == "one"
        assert (await talk.with_token(None).get(url)).status_code == 401
        assert (await worker.get(url)).status_code == 403
