"""The traceback of an exception in Python's format: file, line and source of each call, without NoETL's frames."""

from __future__ import annotations

import ast
import linecache
import os.path
import sys
import traceback

from .code import TOP  # noqa: TID252

LINES = 40  # a longer traceback keeps its first and last lines
FIRST = 8
MAX_LINE_CHARS = 300
_PARSER = ast.__file__  # its frames appear in syntax errors
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def trace_of(problem: BaseException, code: str, file: str) -> list[str]:
    """The lines of a traceback, the innermost call last, without the message of the exception."""
    # The code may have no file: put its lines into the cache where Python looks up those of any module.
    linecache.cache[file] = (len(code), None, [f"{line}\n" for line in code.splitlines()], file)
    try:
        summary = traceback.TracebackException.from_exception(problem)
        return cut("".join(formatted_lines(summary, file, is_syntax=isinstance(problem, SyntaxError))).splitlines())
    except Exception:  # the class of the exception may be the author's, and its attributes may raise
        return []


def formatted_lines(summary: traceback.TracebackException, file: str, *, is_syntax: bool) -> list[str]:
    for link in chain(summary):
        link.stack = traceback.StackSummary.from_list([public_frame(frame) for frame in from_code(link.stack, file)])
    message = list(summary.format_exception_only())
    stack = list(summary.format())[: -len(message) or None]
    return [*stack, *message[:-1]] if is_syntax else stack  # a syntax error has its place in the message


def from_code(stack: traceback.StackSummary, file: str) -> list[traceback.FrameSummary]:
    """The calls from the author's code on; all but NoETL's if the code was never reached."""
    frames = [frame for frame in stack if not frame.filename.startswith((_OURS, _PARSER, "<frozen "))]
    first = next((at for at, frame in enumerate(frames) if frame.filename == file), 0)
    return frames[first:]


def chain(summary: traceback.TracebackException) -> list[traceback.TracebackException]:
    """An exception with its causes and contexts, each once: the links may form a cycle."""
    links: list[traceback.TracebackException] = []
    pending: list[traceback.TracebackException | None] = [summary]
    while pending:
        link = pending.pop()
        if link is not None and all(link is not other for other in links):
            links.append(link)
            pending += [link.__cause__, link.__context__]
    return links


def public_frame(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """A frame with a file name relative to the import path, which hides the folders of the machine."""
    roots = sorted((root + os.sep for root in sys.path if root and frame.filename.startswith(root + os.sep)), key=len)
    frame.filename = frame.filename.removeprefix(roots[-1]) if roots else frame.filename
    frame.name = "<module>" if frame.name == TOP else frame.name
    return frame


def cut(lines: list[str]) -> list[str]:
    short = [line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…" for line in lines]
    if len(short) <= LINES:
        return short
    return [*short[:FIRST], f"  … {len(short) - LINES} lines left out", *short[FIRST - LINES :]]
