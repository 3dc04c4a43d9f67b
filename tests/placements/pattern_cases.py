"""The 43 control-flow patterns, with the messages and signals that some of them wait for."""

from __future__ import annotations

from typing import Any

from tests.patterns.patterns import FOLDER, TRACES
from tests.placements.cases import Case, Line, Say, until


def _case(name: str) -> Case:
    sends: list[dict[str, Any]] = TRACES[name].get("send", [])
    return Case(
        name=name,
        text=(FOLDER / f"{name}.yaml").read_text("utf-8"),
        early=_saying([one for one in sends if one.get("early")], waits=False),
        say=_saying([one for one in sends if not one.get("early")], waits=True),
    )


def _saying(sends: list[dict[str, Any]], *, waits: bool) -> Say | None:
    if not sends:
        return None

    async def say(line: Line) -> None:
        for one in sends:
            kind = "message" if "message" in one else "signal"
            if waits:  # a signal is not stored for later listeners
                await until(line, f"{kind}.awaited")
            if kind == "message":
                await line.message(one["message"], one.get("correlation", {}))
            else:
                await line.signal(one["signal"])

    return say


CASES = [_case(name) for name in sorted(TRACES)]
