"""What a broker's refusal means: the kind of the error, the broker's own code, and whether another try may help."""

from __future__ import annotations

from typing import Any

from aiormq import exceptions
from pamqp import commands

from noetl.base.errors import ToolError

# Reply codes of AMQP 0-9-1: no route, access refused, not found, locked, precondition failed, not allowed.
_KINDS = {312: "missing", 403: "denied", 404: "missing", 405: "conflict", 406: "conflict", 530: "denied"}
_CODES: dict[type[Exception], int] = {  # the library keeps the text of these, and tells the code by the class
    exceptions.ChannelAccessRefused: 403,
    exceptions.ChannelNotFoundEntity: 404,
    exceptions.ChannelLockedResource: 405,
    exceptions.ChannelPreconditionFailed: 406,
    exceptions.ConnectionFrameError: 501,
    exceptions.ConnectionSyntaxError: 502,
    exceptions.ConnectionCommandInvalid: 503,
    exceptions.ConnectionChannelError: 504,
    exceptions.ConnectionUnexpectedFrame: 505,
    exceptions.ConnectionResourceError: 506,
    exceptions.ConnectionNotAllowed: 530,
    exceptions.ConnectionNotImplemented: 540,
    exceptions.ConnectionInternalError: 541,
}
_PASSING = {311, 320, 506, 541}  # too large for now, closed by an operator, out of resources, an internal error
_LONGEST = 300


def tool_error(problem: Exception, what: str) -> ToolError:
    """`what` says what was tried and where."""
    code, text = _code_and_text(problem)
    if isinstance(problem, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return ToolError("amqp.denied", f"{what}: the broker refused the login", code="403", retryable=False)
    said = f"{what}: {_readable(text)}"
    if code is None:
        lost = isinstance(problem, OSError | EOFError | exceptions.AMQPConnectionError | RuntimeError)
        return ToolError("amqp.error", said, code="connection" if lost else "protocol", retryable=lost)
    return ToolError(f"amqp.{_KINDS.get(code, 'error')}", said, code=str(code), retryable=code in _PASSING)


def _code_and_text(problem: Exception) -> tuple[int | None, str]:
    if isinstance(problem, exceptions.DeliveryError):
        frame: Any = problem.frame
        if isinstance(frame, commands.Basic.Return):
            return frame.reply_code, f"{frame.reply_text}: no queue takes it"
        return 541, "the broker could not keep it"
    if type(problem) in _CODES:
        return _CODES[type(problem)], str(problem.args[0]) if problem.args else ""
    if problem.args and isinstance(problem.args[0], int) and isinstance(problem, exceptions.AMQPError):
        return problem.args[0], str(problem.args[1]) if len(problem.args) > 1 else ""
    return None, str(problem) or type(problem).__name__


def _readable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_LONGEST]
