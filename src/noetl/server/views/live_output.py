"""Live output as it is told: what is new since a cursor, task run by task run."""

from __future__ import annotations

from noetl.base.clock import rfc3339
from noetl.control.views.live_output import LiveOutput, LiveTaskRun, lines_after
from noetl.operations.api_shapes import LiveOutputPage, OutputLineView, TaskOutputView
from noetl.operations.log_levels import NONE, LineLevels


def live_output_page(output: LiveOutput, execution_id: str, after: str, step: str | None) -> LiveOutputPage:
    cursors = dict(one.partition(".")[::2] for one in after.split(","))  # of each server that the reader has met
    number = cursors.get(output.era, "")
    is_known = number.isdecimal() and len(number) < 18 and int(number) <= output.number
    known = int(number) if is_known else 0
    runs = [run for run in output.of_execution(execution_id) if step in (None, run.step)]
    return LiveOutputPage(
        tasks=[_task_view(run, known) for run in runs],
        cursor=f"{output.era}.{output.number}",
        is_whole=not is_known,
    )


def _task_view(run: LiveTaskRun, known: int) -> TaskOutputView:
    of, levels = run.of, LineLevels()
    return TaskOutputView(
        task_run_id=of.task_run_id,
        step=run.step,
        task=of.task[:300],
        path=list(of.path),
        attempt=of.attempt,
        lines=[
            OutputLineView(
                ts=rfc3339(line.at), stream=line.stream, text=line.text, level=(levels.next(line.text) or NONE)[0]
            )
            for line in lines_after(run, known)
        ],
        total=run.total,
    )
