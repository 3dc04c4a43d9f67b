"""Answers of a chat endpoint: whole, or streamed as server-sent events, put together to the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What the model wants done. `arguments` is JSON as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`usage` counts tokens as the endpoint does; nothing where it does not say."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    model: str | None = None
    usage: dict[str, int] = {}


def answer_of(data: Any, masked: Callable[[str], str] = str) -> ChatAnswer:
    """The answer in the body of a response. ToolError `llm.error` says what is wrong with it, without secrets."""
    try:
        return _streamed(data, masked) if isinstance(data, str) else _whole(data)
    # The shape is the endpoint's; whatever does not fit is told by its class, since the text may hold the prompt.
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError) as problem:
        message = f"the endpoint's answer is no chat completion: {type(problem).__name__}"
        raise ToolError("llm.error", message, code="answer") from None


def _whole(data: Any) -> ChatAnswer:
    choice = data["choices"][0]
    message = choice["message"]
    calls = [
        ToolCall(call_id=one["id"], name=one["function"]["name"], arguments=one["function"]["arguments"] or "{}")
        for one in message.get("tool_calls") or ()
    ]
    return ChatAnswer(
        text=str(message.get("content") or ""),
        calls=tuple(calls),
        finish=choice.get("finish_reason"),
        model=data.get("model"),
        usage=_usage(data.get("usage")),
    )


def _streamed(text: str, masked: Callable[[str], str]) -> ChatAnswer:
    """Pieces put together. A stream that ends before its last piece is an error: half an answer is none."""
    texts: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    finish = model = None
    usage: dict[str, int] = {}
    is_whole = False
    for piece in _events(text):
        if piece == "[DONE]":
            is_whole = True
            continue
        chunk = msgspec.json.decode(piece)
        if error := chunk.get("error"):
            raise _endpoint_error(error, masked)
        model, usage = chunk.get("model") or model, _usage(chunk.get("usage")) or usage
        for choice in (chunk.get("choices") or ())[:1]:
            delta, finish = choice.get("delta") or {}, choice.get("finish_reason") or finish
            texts.append(str(delta.get("content") or ""))
            _add_calls(calls, delta.get("tool_calls") or ())
    if finish is None and not is_whole:
        raise ToolError("llm.error", "the endpoint's answer ended in the middle", code="cut", retryable=True)
    made = [ToolCall(call_id=one["id"], name=one["name"], arguments=one["arguments"] or "{}") for one in calls.values()]
    return ChatAnswer(text="".join(texts), calls=tuple(made), finish=finish, model=model, usage=usage)


def _events(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


def _add_calls(calls: dict[int, dict[str, str]], deltas: Any) -> None:
    for delta in deltas:
        call = calls.setdefault(int(delta.get("index", len(calls))), {"id": "", "name": "", "arguments": ""})
        function = delta.get("function") or {}
        call["id"] = call["id"] or str(delta.get("id") or "")
        call["name"] += str(function.get("name") or "")
        call["arguments"] += str(function.get("arguments") or "")


def _usage(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping):
        return {}
    return {name: int(value) for name, value in given.items() if isinstance(value, int) and name.endswith("_tokens")}


def _endpoint_error(error: Any, masked: Callable[[str], str]) -> ToolError:
    said = error if isinstance(error, Mapping) else {"message": error}
    code = said.get("code") or said.get("type")
    message = masked(str(said.get("message")))[:500]  # before it is cut: half a secret is not recognised
    return ToolError("llm.error", f"the endpoint says: {message}", code=masked(str(code)), retryable=True)
