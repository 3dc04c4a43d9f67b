"""The traceback of an exception, as Python writes it: file, line and source line of each call, without our own."""

from __future__ import annotations

import ast
import linecache
import os.path
import sys
import traceback

from .code import TOP  # noqa: TID252

LINES = 40  # the first few and the last are told of a long one
FIRST = 8
WIDEST = 300  # characters of a line
_PARSER = ast.__file__  # reads the code
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def trace_of(problem: BaseException, code: str, file: str) -> list[str]:
    """The lines of a traceback, the innermost call last. What the exception says is not in it."""
    # The code may stand in no file: its lines are found where Python looks for those of any module.
    linecache.cache[file] = (len(code), None, [f"{line}\n" for line in code.splitlines()], file)
    try:
        told = traceback.TracebackException.from_exception(problem)
        return cut("".join(formatted(told, file, is_syntax=isinstance(problem, SyntaxError))).splitlines())
    except Exception:  # the exception's class is the author's, and may break whatever looks at it
        return []


def formatted(told: traceback.TracebackException, file: str, *, is_syntax: bool) -> list[str]:
    for one in chain(told):
        one.stack = traceback.StackSummary.from_list([shown_frame(frame) for frame in from_code(one.stack, file)])
    words = list(told.format_exception_only())
    stack = list(told.format())[: -len(words) or None]
    return [*stack, *words[:-1]] if is_syntax else stack  # its place and line stand among its words


def from_code(stack: traceback.StackSummary, file: str) -> list[traceback.FrameSummary]:
    """The calls from the author's code on; all but our own where it never got there."""
    frames = [frame for frame in stack if not frame.filename.startswith((_OURS, _PARSER, "<frozen "))]
    first = next((at for at, frame in enumerate(frames) if frame.filename == file), 0)
    return frames[first:]


def chain(told: traceback.TracebackException) -> list[traceback.TracebackException]:
    """It, and those it came of."""
    found: list[traceback.TracebackException] = []
    pending: list[traceback.TracebackException | None] = [told]
    while pending:
        one = pending.pop()
        if one is not None and all(one is not other for other in found):
            found.append(one)
            pending += [one.__cause__, one.__context__]
    return found


def shown_frame(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """With a file name that says which module it is, not where this machine keeps it."""
    roots = sorted((root + os.sep for root in sys.path if root and frame.filename.startswith(root + os.sep)), key=len)
    frame.filename = frame.filename.removeprefix(roots[-1]) if roots else frame.filename
    frame.name = "<module>" if frame.name == TOP else frame.name
    return frame


def cut(lines: list[str]) -> list[str]:
    kept = [line if len(line) <= WIDEST else line[:WIDEST] + "…" for line in lines]
    if len(kept) <= LINES:
        return kept
    return [*kept[:FIRST], f"  … {len(kept) - LINES} lines left out", *kept[FIRST - LINES :]]
