"""`llm`: asks a language model, at any endpoint that speaks OpenAI's chat protocol.

Every request goes through the `http` tool, with its address policy, limits and cancellation. `spec.max_rounds` and
`spec.max_tokens` bound the loop of tool calls: the author decides what a task may cost, not the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.result_schemas import mismatch
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.http.request_options import InvalidRequest, fields_of
from noetl.tools.input_shapes import whole_number

# Requests to the model in one task while it keeps calling tools; each costs money.
ROUNDS = 8
_PASSED_ON = ("temperature", "top_p", "seed", "stop")
_URLS = ("url", "base_url", "endpoint")


class LlmTool(Tool):
    """The tool of the kind `llm`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request, tools, schema = _request(inputs), offered_tools(inputs.get("tools")), inputs.get("schema")
        if tools:
            request["tools"] = [tool.declaration() for tool in tools.values()]
        if schema is not None:
            request["response_format"] = _response_format(schema)
        usage, calls = Counter[str](), list[dict[str, Any]]()
        rounds = whole_number(context.spec.get("max_rounds"), "spec.max_rounds", ROUNDS, error="llm.input")
        for _ in range(rounds):
            answer = await self._ask(request, inputs, context)
            usage.update(answer.usage)
            _check_budget(usage, context)
            if not answer.calls:
                return ToolResult(result=_result(answer, schema, usage, calls))
            request["messages"] += await _tool_messages(answer, tools, calls, context)
        message = f"the model wanted more than {rounds} rounds of tool calls, which is spec.max_rounds"
        raise ToolError("llm.budget", message, code="rounds", calls=len(calls))

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by listing the models. Raises ToolError with the reason if it is refused."""
        url = _base_url(inputs, context)
        await _http(context, {"method": "GET", "url": f"{url}/models", **_auth(inputs)})
        return f"listed the models of {url}"

    async def _ask(self, request: dict[str, Any], inputs: Mapping[str, Any], context: ToolContext) -> ChatAnswer:
        call = {"method": "POST", "url": f"{_base_url(inputs, context)}/chat/completions", "json": request}
        return answer_of(await _http(context, {**call, **_auth(inputs)}), context.mask)


async def _http(context: ToolContext, request: dict[str, Any]) -> Any:
    """The body of the response. An error has the code and message of the endpoint."""
    if context.tool is None:
        raise ToolError("llm.input", "there are no other tools here")
    try:
        return (await context.tool("http").run(request, _as_bearer(context))).result["data"]
    except ToolError as problem:
        status, data = problem.details.get("status"), problem.details.get("data")
        error = data.get("error") if isinstance(data, Mapping) else None
        if status is None or not isinstance(error, Mapping):
            raise
        code = context.mask(str(error.get("code") or error.get("type") or status))
        # Masked before it is cut: half a secret is not recognised.
        message = f"the endpoint answered {status}: {context.mask(str(error.get('message')))[:500]}"
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
    # The read timeout counts from piece to piece, so a long answer that is streamed does not exceed it.
    if inputs.get("stream") is not False:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return request


def _messages(inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages, prompt, system = inputs.get("messages"), inputs.get("prompt"), inputs.get("system")
    if (messages is None) == (prompt is None):
        raise ToolError("llm.input", 'write either "prompt" or "messages"')
    if messages is not None and not (isinstance(messages, list) and all(isinstance(entry, dict) for entry in messages)):
        raise ToolError("llm.input", "messages is a list of {role, content}")
    text = prompt if isinstance(prompt, str) else msgspec.json.encode(prompt).decode()
    messages = list(messages) if messages is not None else [{"role": "user", "content": text}]
    return [{"role": "system", "content": str(system)}, *messages] if system else messages


def _response_format(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise ToolError("llm.input", "schema is a JSON Schema, as a mapping")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


async def _tool_messages(
    answer: ChatAnswer, tools: Mapping[str, OfferedTool], calls: list[dict[str, Any]], context: ToolContext
) -> list[dict[str, Any]]:
    """The messages of a round: the calls that the model wants, and the result of each."""
    wanted = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": answer.text or None, "tool_calls": wanted}]
    for call in answer.calls:
        tool = tools.get(call.name)
        text = await tool.answer(call.arguments, context) if tool is not None else f'error: no tool "{call.name}"'
        calls.append({"tool": call.name, "arguments": call.arguments, "failed": text.startswith("error: ")})
        messages.append({"role": "tool", "tool_call_id": call.call_id, "content": text})
    return messages


def _result(answer: ChatAnswer, schema: Any, usage: Counter[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    result = {"text": answer.text, "model": answer.model, "finish": answer.finish, "usage": dict(usage), "calls": calls}
    if schema is None:
        return result
    try:
        value = msgspec.json.decode(answer.text)
    except (msgspec.DecodeError, RecursionError):
        how = "was cut off" if answer.finish == "length" else "is not JSON"
        raise ToolError("llm.schema", f"the model's answer {how}, and schema asks for it", retryable=True) from None
    if problem := mismatch(schema, value):
        raise ToolError("llm.schema", f"the model's answer does not fit schema: {problem}", retryable=True)
    return {**result, "value": value}


def _check_budget(usage: Counter[str], context: ToolContext) -> None:
    most = whole_number(context.spec.get("max_tokens"), "spec.max_tokens", None, error="llm.input")
    if most is not None and usage["total_tokens"] > most:
        message = f"{usage['total_tokens']:,} tokens were used, more than spec.max_tokens ({most:,})"
        raise ToolError("llm.budget", message, code="tokens", usage=dict(usage))


def _base_url(inputs: Mapping[str, Any], context: ToolContext) -> str:
    try:
        fields = fields_of(inputs.get("auth"), context.resolve) if inputs.get("auth") is not None else {}
    except InvalidRequest as problem:
        raise ToolError("llm.input", str(problem)) from None
    found = inputs.get("url") or next((fields[name] for name in _URLS if fields.get(name)), None)
    if not found:
        raise ToolError("llm.input", 'a task of llm needs "url", such as https://api.openai.com/v1')
    return str(found).rstrip("/")


def _auth(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"auth": inputs["auth"]} if inputs.get("auth") is not None else {}


# Tools that a model may call: tasks of other kinds, with inputs that the author has fixed.
# A model chooses only the arguments. They are checked against the declared parameters and become one input of the task
# (`args` by default). Code, commands, addresses and credentials never come from the model.
_MAX_RESULT_CHARS = 64 << 10  # of a tool result that the model sees


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool for the model. `inputs` are those of the task; `arguments` names the input that gets the arguments."""

    name: str
    kind: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    inputs: dict[str, Any] = {}
    arguments: str = "args"

    def declaration(self) -> dict[str, Any]:
        """The declaration in the format of the endpoint."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def answer(self, written: str, context: ToolContext) -> str:
        """The result of the tool as text for the model. An error is text too: the model may correct its arguments."""
        try:
            arguments = msgspec.json.decode(written)
        except (msgspec.DecodeError, RecursionError):
            return "error: the arguments are not JSON"
        if not isinstance(arguments, dict):
            return "error: the arguments are not an object"
        if problem := mismatch(self.parameters, arguments):
            return f"error: {problem}"
        assert context.tool is not None
        try:
            ran = await context.tool(self.kind).run({**self.inputs, self.arguments: arguments}, context)
        except ToolError as failed:
            return context.mask(f"error: {failed.kind}: {failed.message}")[:_MAX_RESULT_CHARS]
        value = ran.result["data"] if ran.wrapped and isinstance(ran.result, Mapping) else ran.result
        return context.mask(value if isinstance(value, str) else msgspec.json.encode(value).decode())[
            :_MAX_RESULT_CHARS
        ]


def offered_tools(written: Any) -> dict[str, OfferedTool]:
    """The offered tools by name. Raises ToolError `llm.input` for an invalid one."""
    if not written:
        return {}
    try:
        offered = msgspec.convert(written, list[OfferedTool])
    except msgspec.ValidationError as problem:
        raise ToolError("llm.input", f"tools: {problem}") from None
    by_name = {tool.name: tool for tool in offered}
    if len(by_name) < len(offered):
        raise ToolError("llm.input", "tools: two have the same name")
    # Both could call a model again, without the budget of this task.
    if nested := next((tool.name for tool in offered if tool.kind in ("llm", "playbook")), None):
        raise ToolError("llm.input", f'tools: "{nested}" is of a kind that a model may not call')
    return by_name


# Answers of a chat endpoint: complete, or streamed as server-sent events, which are joined to the same form.


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model requests. `arguments` is JSON as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `usage` has the token counts of the endpoint; empty if it sends none."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    model: str | None = None
    usage: dict[str, int] = {}


def answer_of(data: Any, mask: Callable[[str], str] = str) -> ChatAnswer:
    """The answer in the body of a response. Raises ToolError `llm.error` for an invalid one, without secrets."""
    try:
        return _streamed_answer(data, mask) if isinstance(data, str) else _complete_answer(data)
    # The endpoint controls the form. The message has only the class of the problem: its text may hold the prompt.
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError) as problem:
        message = f"the endpoint's answer is no chat completion: {type(problem).__name__}"
        raise ToolError("llm.error", message, code="answer") from None


def _complete_answer(data: Any) -> ChatAnswer:
    choice = data["choices"][0]
    message = choice["message"]
    calls = [
        ToolCall(call_id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"] or "{}")
        for call in message.get("tool_calls") or ()
    ]
    return ChatAnswer(
        text=str(message.get("content") or ""),
        calls=tuple(calls),
        finish=choice.get("finish_reason"),
        model=data.get("model"),
        usage=_usage(data.get("usage")),
    )


def _streamed_answer(text: str, mask: Callable[[str], str]) -> ChatAnswer:
    """The joined pieces of a stream. A stream that ends before its last piece is an error."""
    texts: list[str] = []
    calls: dict[int, _CallPieces] = {}
    finish = model = None
    usage: dict[str, int] = {}
    is_complete = False
    for piece in _events(text):
        if piece == "[DONE]":
            is_complete = True
            continue
        chunk = msgspec.json.decode(piece)
        if error := chunk.get("error"):
            raise _endpoint_error(error, mask)
        model, usage = chunk.get("model") or model, _usage(chunk.get("usage")) or usage
        # The last piece of a stream has the usage and no choice at all.
        for choice in (chunk.get("choices") or ())[:1]:
            delta, finish = choice.get("delta") or {}, choice.get("finish_reason") or finish
            texts.append(str(delta.get("content") or ""))
            _add_calls(calls, delta.get("tool_calls") or ())
    if finish is None and not is_complete:
        raise ToolError("llm.error", "the endpoint's answer ended in the middle", code="cut", retryable=True)
    joined = tuple(call.joined() for call in calls.values())
    return ChatAnswer(text="".join(texts), calls=joined, finish=finish, model=model, usage=usage)


def _events(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


class _CallPieces(msgspec.Struct):
    """A call that comes in pieces: its id and name with the first, its arguments a few characters at a time."""

    call_id: str = ""
    # Lists, and not texts that grow: an answer may have a million pieces, and each would copy all before it.
    names: list[str] = []
    arguments: list[str] = []

    def joined(self) -> ToolCall:
        return ToolCall(call_id=self.call_id, name="".join(self.names), arguments="".join(self.arguments) or "{}")


def _add_calls(calls: dict[int, _CallPieces], deltas: Any) -> None:
    for delta in deltas:
        call = calls.setdefault(int(delta.get("index", len(calls))), _CallPieces())
        function = delta.get("function") or {}
        call.call_id = call.call_id or str(delta.get("id") or "")
        call.names.append(str(function.get("name") or ""))
        call.arguments.append(str(function.get("arguments") or ""))


def _usage(counts: Any) -> dict[str, int]:
    if not isinstance(counts, Mapping):
        return {}
    return {name: int(value) for name, value in counts.items() if isinstance(value, int) and name.endswith("_tokens")}


def _endpoint_error(error: Any, mask: Callable[[str], str]) -> ToolError:
    fields = error if isinstance(error, Mapping) else {"message": error}
    code = fields.get("code") or fields.get("type")
    message = mask(str(fields.get("message")))[:500]  # masked before it is cut: half a secret is not recognised
    return ToolError("llm.error", f"the endpoint answered: {message}", code=mask(str(code)), retryable=True)
