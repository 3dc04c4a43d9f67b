"""`llm`: asks a language model, at any endpoint that speaks OpenAI's chat protocol.

Every request goes through the `http` tool, under its address policy, limits and cancellation. The tool loop is bounded
by `spec.max_rounds` and `spec.max_tokens`: what a model may cost is the author's decision, not the model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.result_schemas import misfit
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.http.request_options import Wrong, fields_of

# Questions to the model in one task, when it keeps calling tools; each costs money.
ROUNDS = 8
_PASSED_ON = ("temperature", "top_p", "seed", "stop")
_URLS = ("url", "base_url", "endpoint")


class LlmTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request, tools, schema = _request(inputs), offered_tools(inputs.get("tools")), inputs.get("schema")
        if tools:
            request["tools"] = [tool.declaration() for tool in tools.values()]
        if schema is not None:
            request["response_format"] = _response_format(schema)
        usage, calls = Counter[str](), list[dict[str, Any]]()
        rounds = _limit(context.spec.get("max_rounds"), "max_rounds") or ROUNDS
        for _ in range(rounds):
            answer = await self._ask(request, inputs, context)
            usage.update(answer.usage)
            _check_budget(usage, context)
            if not answer.calls:
                return ToolResult(result=_result(answer, schema, usage, calls))
            request["messages"] += await _answered(answer, tools, calls, context)
        message = f"the model wanted more than {rounds} rounds of tool calls, which is spec.max_rounds"
        raise ToolError("llm.budget", message, code="rounds", calls=len(calls))

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the endpoint takes the credential: lists its models. ToolError says why it does not."""
        url = _base_url(inputs, context)
        await _http(context, {"method": "GET", "url": f"{url}/models", **_auth(inputs)})
        return f"listed the models of {url}"

    async def _ask(self, request: dict[str, Any], inputs: Mapping[str, Any], context: ToolContext) -> ChatAnswer:
        call = {"method": "POST", "url": f"{_base_url(inputs, context)}/chat/completions", "json": request}
        return answer_of(await _http(context, {**call, **_auth(inputs)}), context.masked)

    async def close(self) -> None:
        """Nothing is open: connections belong to the http tool."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def _http(context: ToolContext, request: dict[str, Any]) -> Any:
    """The body of the response. The endpoint's own code and words where it refuses."""
    if context.tool is None:
        raise ToolError("llm.input", "there are no other tools here")
    try:
        return (await context.tool("http").run(request, _as_bearer(context))).result["data"]
    except ToolError as problem:
        status, data = problem.details.get("status"), problem.details.get("data")
        said = data.get("error") if isinstance(data, Mapping) else None
        if status is None or not isinstance(said, Mapping):
            raise
        code = context.masked(str(said.get("code") or said.get("type") or status))
        # Masked before it is cut: half a secret is not recognised.
        message = f"the endpoint answered {status}: {context.masked(str(said.get('message')))[:500]}"
        kind = "llm.denied" if status in (401, 403) else "llm.error"
        raise ToolError(kind, message, retryable=problem.retryable, status=status, code=code) from None


def _as_bearer(context: ToolContext) -> ToolContext:
    """A key of these endpoints is a bearer token, unless `spec.auth_mode` says otherwise."""
    return msgspec.structs.replace(context, spec={"auth_mode": "bearer", **context.spec})


def _request(inputs: Mapping[str, Any]) -> dict[str, Any]:
    model = inputs.get("model")
    if not isinstance(model, str) or not model:
        raise ToolError("llm.input", 'a task of llm needs "model"')
    request: dict[str, Any] = {"model": model, "messages": _messages(inputs)}
    request |= {name: inputs[name] for name in _PASSED_ON if inputs.get(name) is not None}
    if inputs.get("max_tokens") is not None:
        request["max_tokens"] = inputs["max_tokens"]
    if inputs.get("stream") is not False:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return request


def _messages(inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    given, prompt, system = inputs.get("messages"), inputs.get("prompt"), inputs.get("system")
    if (given is None) == (prompt is None):
        raise ToolError("llm.input", 'write "prompt", or "messages": one of them')
    if given is not None and not (isinstance(given, list) and all(isinstance(one, dict) for one in given)):
        raise ToolError("llm.input", "messages is a list of {role, content}")
    text = prompt if isinstance(prompt, str) else msgspec.json.encode(prompt).decode()
    messages = list(given) if given is not None else [{"role": "user", "content": text}]
    return [{"role": "system", "content": str(system)}, *messages] if system else messages


def _response_format(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise ToolError("llm.input", "schema is a JSON Schema, as a mapping")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


async def _answered(
    answer: ChatAnswer, tools: Mapping[str, OfferedTool], calls: list[dict[str, Any]], context: ToolContext
) -> list[dict[str, Any]]:
    """The messages of a round: what the model wants, and what each of its calls gave."""
    wanted = [
        {"id": one.call_id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for one in answer.calls
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": answer.text or None, "tool_calls": wanted}]
    for one in answer.calls:
        tool = tools.get(one.name)
        found = await tool.answer(one.arguments, context) if tool is not None else f'error: no tool "{one.name}"'
        calls.append({"tool": one.name, "arguments": one.arguments, "failed": found.startswith("error: ")})
        messages.append({"role": "tool", "tool_call_id": one.call_id, "content": found})
    return messages


def _result(answer: ChatAnswer, schema: Any, usage: Counter[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"text": answer.text, "model": answer.model, "finish": answer.finish, "usage": dict(usage), "calls": calls}
    if schema is None:
        return told
    try:
        value = msgspec.json.decode(answer.text)
    except (msgspec.DecodeError, RecursionError):
        how = "was cut off" if answer.finish == "length" else "is not JSON"
        raise ToolError("llm.schema", f"the model's answer {how}, and schema asks for it", retryable=True) from None
    if problem := misfit(schema, value):
        raise ToolError("llm.schema", f"the model's answer does not fit schema: {problem}", retryable=True)
    return {**told, "value": value}


def _check_budget(usage: Counter[str], context: ToolContext) -> None:
    most = _limit(context.spec.get("max_tokens"), "max_tokens")
    if most is not None and usage["total_tokens"] > most:
        message = f"{usage['total_tokens']:,} tokens were used, more than spec.max_tokens ({most:,})"
        raise ToolError("llm.budget", message, code="tokens", usage=dict(usage))


def _limit(written: Any, name: str) -> int | None:
    if written is None:
        return None
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise ToolError("llm.input", f'spec.{name} "{written}" is not a number from 1')
    return written


def _base_url(inputs: Mapping[str, Any], context: ToolContext) -> str:
    try:
        fields = fields_of(inputs.get("auth"), context.resolve) if inputs.get("auth") is not None else {}
    except Wrong as problem:
        raise ToolError("llm.input", str(problem)) from None
    found = inputs.get("url") or next((fields[name] for name in _URLS if fields.get(name)), None)
    if not found:
        raise ToolError("llm.input", 'a task of llm needs "url", such as https://api.openai.com/v1')
    return str(found).rstrip("/")


def _auth(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"auth": inputs["auth"]} if inputs.get("auth") is not None else {}


# Tools that a model may call: tasks of other kinds, with inputs that the author has fixed.
# A model chooses arguments and nothing else: they are checked against the declared parameters, and become one input
# of the task (`args` when left out). Code, commands, addresses and credentials are never the model's.
_LONGEST = 64 << 10  # characters of a result that a model is shown


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`inputs` are the task's, beside `kind`; the model's arguments are its input `arguments`."""

    name: str
    kind: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    inputs: dict[str, Any] = {}
    arguments: str = "args"

    def declaration(self) -> dict[str, Any]:
        """As the endpoint is told of it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def answer(self, written: str, context: ToolContext) -> str:
        """What the tool gives for the model's arguments, as text for the model; also what went wrong, which it may
        make better."""
        try:
            arguments = msgspec.json.decode(written)
        except (msgspec.DecodeError, RecursionError):
            return "error: the arguments are not JSON"
        if not isinstance(arguments, dict):
            return "error: the arguments are not an object"
        if problem := misfit(self.parameters, arguments):
            return f"error: {problem}"
        assert context.tool is not None
        try:
            ran = await context.tool(self.kind).run({**self.inputs, self.arguments: arguments}, context)
        except ToolError as failed:
            return context.masked(f"error: {failed.kind}: {failed.message}")[:_LONGEST]
        found = ran.result["data"] if ran.wrapped and isinstance(ran.result, Mapping) else ran.result
        return context.masked(found if isinstance(found, str) else msgspec.json.encode(found).decode())[:_LONGEST]


def offered_tools(written: Any) -> dict[str, OfferedTool]:
    """By name. ToolError `llm.input` says what is wrong with one."""
    if not written:
        return {}
    try:
        found = msgspec.convert(written, list[OfferedTool])
    except msgspec.ValidationError as problem:
        raise ToolError("llm.input", f"tools: {problem}") from None
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise ToolError("llm.input", "tools: two have the same name")
    if nested := next((one.name for one in found if one.kind in ("llm", "playbook")), None):
        raise ToolError("llm.input", f'tools: "{nested}" is of a kind that a model may not call')
    return by_name


# Answers of a chat endpoint: whole, or streamed as server-sent events, put together to the same shape.


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
