"""`noetl status`, `explain`, `inputs`, `compare` and `replay`: the state of an execution, the reasons for it, the
inputs of its attempts, differences to another execution, and its state at an earlier event (CLI-04, EVT-07)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, find_execution_id, is_abandoned_run, place_meant, place_options, read
from noetl.cli.queries import ID_HELP, QueryRefused, find_execution, id_argument, resume_hint
from noetl.cli.terminal import as_json, color_option, print_record, record_output, visible

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.events.envelope import Event
    from noetl.events.projection.projection import Projection
    from noetl.events.projection.views import Failure, StepRunView
    from noetl.store.contract import ExecutionRow, Records, Results


_COLORS = {"completed": "green", "failed": "red", "running": "cyan"}


@click.command("status", epilog=ID_HELP)
@id_argument
@record_output
@place_options
@color_option
def status_command(reference: str, output: str, db: str | None) -> None:
    """Show where an execution stands: its state, the steps under way and since when, loops, the error."""

    from noetl.control.background.presence import is_abandoned

    async def execution_status(history: Records) -> tuple[ExecutionRow, Projection, bool]:
        row = await find_execution(history, reference)
        return row, await progress_of(history, row.execution_id), await is_abandoned(history, row)

    row, progress, is_alone = read(db, execution_status)
    hint = f"no process runs it now; resume it with: {resume_hint(db, row.execution_id)}"
    print_record(
        readable_of(row, progress, is_alone, read(db, lambda history: history.registered(row.path))),
        output,
        text=lambda: [*lines_of(row, progress, time.time()), *([hint] if is_alone else [])],
    )


async def progress_of(history: Records, execution_id: str) -> Projection:
    """The projection of the whole log."""
    from noetl.events.projection.projection import Projection
    from noetl.operations.executions import event_pages

    progress = Projection()
    async for events in event_pages(history, execution_id):
        progress.take_all(events)
    return progress


def lines_of(row: ExecutionRow, progress: Projection, now: float) -> Iterator[str]:
    from noetl.cli.live_text import (
        WHOLE,
        activity_text,
        detail_lines,
        error_line,
        lasted,
        local_time,
        named,
        side_run_words,
        waiting,
    )

    status = click.style(row.status, fg=_COLORS.get(row.status, "yellow"), bold=True)
    took = lasted((row.finished_at or now) - row.created_at)
    yield f"{row.execution_id}  {status}"
    yield f"playbook  {visible(row.path)} ({visible(row.name)})"
    yield f"started   {local_time(row.created_at)}, {'took' if row.finished_at else 'runs for'} {took}"
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    waits = f", {progress.waiting:,} waiting" if progress.waiting else ""
    # Steps whose tasks are done but whose wait is not over count as waiting, not as done.
    done = progress.done - progress.waiting
    yield f"steps     {done:,} done{failed}, {len(progress.steps):,} under way{waits}; {row.last_seq:,} events"
    if progress.failure is not None:
        yield (
            click.style("error", fg="red")
            + f"     {_failure_place(progress.failure)}{error_line(progress.failure.error, WHOLE)}"
        )
        yield from (f"          {line}" for line in detail_lines(progress.failure.error))
    for view in progress.steps.values():
        yield f"  ▸ {named(view.step):16}  {activity_text(view, now)}, since {local_time(view.active_since)}"
        yield from _retry_lines(view)
    for held in progress.held.values():
        yield f"  · {named(held.step):16}  {waiting(held)}, since {local_time(held.since)}"
    for view in progress.side_runs.values():
        yield f"  ↶ {named(view.step):16}  {side_run_words(view, now)}, since {local_time(view.active_since)}"
        yield from _retry_lines(view)
    if progress.to_undo:
        yield f"  ↶ {progress.to_undo:,} more to undo"


def _retry_lines(view: StepRunView) -> Iterator[str]:
    from noetl.cli.live_text import error_line

    if (retry := view.pipeline.retry) is not None and retry.error is not None:
        yield f"    {'':16}  ↻ {error_line(retry.error)}"


def _failure_place(failure: Failure) -> str:
    if failure.step is None:
        return ""
    task = f", task {visible(failure.task)}" if failure.task else ""
    return f"step {visible(failure.step)}{task}: "


def readable_of(
    row: ExecutionRow, progress: Projection, is_abandoned: bool, registered: set[str] | None
) -> dict[str, Any]:
    from noetl.base.clock import rfc3339
    from noetl.cli.executions import execution_fields

    failure = progress.failure
    return {
        **execution_fields(row, registered),
        "abandoned": is_abandoned,
        "steps_done": progress.done,
        "steps_failed": progress.failed,
        "steps": [_step(view) for view in progress.steps.values()],
        "held": [
            {"step": held.step, "reason": held.reason, "since": rfc3339(held.since)} for held in progress.held.values()
        ],
        "side_runs": [
            {
                "kind": view.origin and view.origin.kind,
                "event": view.origin and view.origin.event,
                **_step(view),
                "retry_at": view.pipeline.retry and rfc3339(view.pipeline.retry.at),
            }
            for view in progress.side_runs.values()
        ],
        "to_undo": progress.to_undo,
        "error": failure and {"step": failure.step, "task": failure.task, **failure.error.readable()},
    }


def _step(view: StepRunView) -> dict[str, Any]:
    import msgspec

    from noetl.base.clock import rfc3339

    return {
        "step": view.step,
        "state": "scheduled" if view.started_at is None else "running",
        "since": rfc3339(view.active_since),
        "task": view.pipeline.task,
        "attempt": view.pipeline.attempt,
        "retries": view.pipeline.retries,
        "loop": msgspec.to_builtins(view.loop.levels) if view.loop is not None else [],
    }


@click.command("explain", epilog=ID_HELP)
@id_argument
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@place_options
@color_option
def explain_command(reference: str, output: str, db: str | None) -> None:
    """Say why an execution is where it is: where each token is, what it waits for, and what would move it."""
    explanation = ask(db, lambda operations: _load_explanation(operations, reference, db))
    if output == "json":
        click.echo(as_json(explanation))
        return
    click.echo(f"{explanation['execution_id']}  {explanation['status']}")
    for sentence in explanation["sentences"]:
        click.echo(f"  {visible(sentence)}")


async def _load_explanation(operations: Operations, reference: str, db: str | None) -> dict[str, Any]:
    execution_id = await find_execution_id(operations, reference)
    explanation = await operations.explain(execution_id)
    if explanation["status"] == "paused":
        explanation["sentences"].append(f"noetl resume {execution_id} lets it go on")
    # The log cannot say this: it ends the same whether its process is busy or gone.
    if await is_abandoned_run(operations, execution_id):
        explanation["sentences"].append(f"no process runs it now: {resume_hint(db, execution_id)}")
        explanation["stuck"] = True
    return explanation


@click.command("inputs", epilog=ID_HELP)
@id_argument
@click.argument("step")
@click.option("--task", metavar="NAME", help="A task of the step; else the last that ran.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="An attempt; else the last.")
@click.option("--against", metavar="ID", help="Compare with the same task of this execution.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@place_options
@color_option
def inputs_command(
    reference: str, step: str, task: str | None, attempt: int | None, against: str | None, output: str, db: str | None
) -> None:
    """Show what an attempt of a step was given, and what differs from the attempt before it.

    Inputs are rendered again from the log, and secrets are shown as ***. What a tool reads by itself is not known.
    """
    answer = ask(db, lambda operations: _inputs(operations, reference, step, task, attempt, against))
    if output == "json":
        click.echo(as_json(answer))
        return
    current, before = answer["attempt"], answer["before"]
    click.echo(f"{answer['execution_id']}  {visible(_attempt_text(current))}, {current['status']}")
    if answer["unknown"] is not None:
        raise QueryRefused(f"its inputs are not known: {visible(answer['unknown'])}")
    click.echo(as_json(answer["inputs"]))
    for note in answer["notes"]:
        click.echo(f"note: {visible(note)}")
    if before is None:
        return
    where = f" of {answer['before_execution_id']}" if against is not None else ""
    click.echo(f"{'differs from' if answer['differences'] else 'the same as'} {visible(_attempt_text(before))}{where}")
    for line in _difference_lines(answer["differences"] or ()):
        click.echo(line)


async def _inputs(
    operations: Operations, reference: str, step: str, task: str | None, attempt: int | None, against: str | None
) -> dict[str, Any]:
    import msgspec

    execution_id = await find_execution_id(operations, reference)
    other = await find_execution_id(operations, against) if against is not None else None
    # Attempts come oldest first and the newest is wanted, so all pages are read.
    match, after = None, 0
    while True:
        page = await operations.attempts(execution_id, step=step, task=task, after=after, limit=1_000)
        match = next(
            (candidate for candidate in reversed(page.attempts) if attempt in (None, candidate.attempt)), match
        )
        if page.next is None:
            break
        after = page.next
    if match is None:
        which = f"attempt {attempt}" if attempt is not None else "attempt"
        of = f'task "{visible(task)}" of step' if task is not None else "step"
        raise QueryRefused(f'execution {execution_id} has no {which} of {of} "{visible(step)}"')
    answer: dict[str, Any] = msgspec.to_builtins(
        await operations.attempt_inputs(execution_id, match.seq, against=other)
    )
    answer["attempt"]["status"] = match.status
    return answer


def _attempt_text(attempt: dict[str, Any]) -> str:
    where = f" [{'.'.join(map(str, attempt['path']))}]" if attempt["path"] else ""
    return f"{attempt['step']}{where}, task {attempt['task']}, attempt {attempt['attempt']} (event {attempt['seq']:,})"


def _difference_lines(differences: Iterable[dict[str, Any]]) -> Iterator[str]:
    for difference in differences:
        if difference["more"]:
            yield f"  {visible(difference['path'] or '(all of it)')}: {difference['more']:,} more differences"
            continue
        old, new = (_value_text(difference, side) for side in ("before", "after"))
        yield f"  {visible(difference['path'] or '(all of it)')}: {visible(old)} → {visible(new)}"


def _value_text(difference: dict[str, Any], side: str) -> str:
    import json

    if difference["entries"] is not None:
        return f"{difference['entries'][side]:,} entries"
    values = difference["values"]
    return json.dumps(values[side], ensure_ascii=False)[:200] if side in values else "not there"


@click.command("compare", epilog=ID_HELP)
@click.argument("references", nargs=-1, required=True, metavar="[ID] ID")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@place_options
@color_option
def compare_command(references: tuple[str, ...], output: str, db: str | None) -> None:
    """Show what differs between two executions, the earlier one first: their steps with states and durations, inputs,
    variables and results. With one ID, it is compared with the execution of the same playbook before it.
    """
    if len(references) > 2:
        raise QueryRefused(f"name one or two executions, not {len(references)}")
    comparison = ask(db, lambda operations: _comparison(operations, references))
    if output == "json":
        click.echo(as_json(comparison))
    else:
        for line in _comparison_lines(comparison):
            click.echo(line)


async def _comparison(operations: Operations, references: tuple[str, ...]) -> dict[str, Any]:
    import msgspec

    ids = [await find_execution_id(operations, reference) for reference in references]
    answer = await operations.compare(ids[-1], against=ids[0] if len(ids) == 2 else None)
    if answer.before is None:
        raise QueryRefused(
            f"{answer.after.path} was not run before execution {ids[-1]}: name another one to compare with"
        )
    plain: dict[str, Any] = msgspec.to_builtins(answer)
    return plain


def _comparison_lines(comparison: dict[str, Any]) -> Iterator[str]:
    for word, side in (("before", comparison["before"]), ("after", comparison["after"])):
        version = f" version {side['version']}" if side["version"] is not None else ""
        yield f"{word:7} {side['execution_id']}  {visible(side['path'])}{version}, {_how_it_went(side)}"
        if side["error"] is not None:
            yield visible(f"        {side['error']['kind']}: {side['error']['message']}")
    yield "steps"
    width = max((len(step["step"]) for step in comparison["steps"]), default=0)
    for step in comparison["steps"]:
        change = f" ({step['change_s']:+.3f} s)" if step["change_s"] is not None else ""
        yield visible(
            f"  {step['step']:{width}}  {_how_it_went(step['before'])} → {_how_it_went(step['after'])}{change}"
        )
    for part in ("inputs", "variables", "results"):
        yield f"{part}{':' if comparison[part] else ' are the same'}"
        yield from _difference_lines(comparison[part])


def _how_it_went(side: dict[str, Any] | None) -> str:
    """The state of an execution or of a step, with its duration."""
    if side is None:
        return "did not run"
    times = f", {side['runs']} runs" if side.get("runs", 1) > 1 else ""
    took = f" in {side['duration_s']:.3f} s" if side["duration_s"] is not None else ""
    lost = f", {side['failed']} of {side['iterations']} iterations failed" if side.get("failed") else ""
    if side.get("unrun"):
        lost += f", {side['unrun']} did not run" if lost else f", {side['unrun']} of {side['iterations']} did not run"
    return f"{side['status']}{took}{times}{lost}"


@click.command("replay", epilog=ID_HELP)
@id_argument
@click.option("--until", type=click.IntRange(min=1), metavar="SEQ", help="Stop after this event.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@place_options
@color_option
def replay_command(reference: str, until: int | None, output: str, db: str | None) -> None:
    """Replay the log of an execution and show where it stands then, in the form of `noetl status`.

    Nothing is run again. Without --until, it shows what `noetl status` shows.
    """
    from noetl.control.background.presence import is_abandoned
    from noetl.operations.executions import event_pages

    results = place_meant(db).results()

    async def replayed_execution(history: Records) -> tuple[ExecutionRow, Projection, float | None, bool]:
        row = await find_execution(history, reference)
        events = [event async for page in event_pages(history, row.execution_id) for event in page]
        if until is not None and until > len(events):
            raise QueryRefused(f"execution {row.execution_id} has {len(events)} events, so there is none {until}")
        replayed, progress = _replayed_state(events if until is None else events[:until], results)
        is_past = until is not None and until < len(events)
        return (
            replayed,
            progress,
            events[until - 1].ts if is_past and until else None,
            await is_abandoned(history, replayed),
        )

    row, progress, moment, is_alone = read(db, replayed_execution)
    if output == "json":
        registered = read(db, lambda history: history.registered(row.path))
        click.echo(as_json(readable_of(row, progress, is_alone and moment is None, registered)))
        return
    for line in lines_of(row, progress, moment if moment is not None else time.time()):
        click.echo(line)


def _replayed_state(events: list[Event], results: Results) -> tuple[ExecutionRow, Projection]:
    """Replay events through the engine; an inconsistent log is refused."""
    from noetl.base.errors import ToolError
    from noetl.events.envelope import with_stored_values
    from noetl.events.projection.projection import Projection
    from noetl.store.inspection import derived_rows

    progress = Projection()
    progress.take_all(events)
    try:
        return derived_rows([with_stored_values(event, results.load) for event in events]).execution, progress
    except (LookupError, ToolError) as problem:
        raise QueryRefused(f"the log cannot be replayed: {problem}") from problem
