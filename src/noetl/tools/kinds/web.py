"""Kinds that talk to other services: http, nats, mcp, llm."""

from __future__ import annotations

from noetl.net.kinds import (
    ANYTHING,
    ARGS,
    AUTH,
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    Input,
    ToolKind,
    TriggerKind,
    one_of,
)

_AUTH_MODE = Input(
    name="auth_mode",
    schema=TEXT,
    doc="How the credential is attached: bearer, basic, header or query; by its type when left out.",
)

HTTP = ToolKind(
    name="http",
    error_kinds=("http.status", "http.transport"),
    error_aliases=("rate_limit", "server_error", "auth", "not_found", "client_error", "connection", "network"),
    doc="Calls a URL. A status of 400 or more is an error outcome.",
    inputs=(
        Input(name="url", schema=TEXT, doc="Address to call.", required=True, aliases=("endpoint", "uri")),
        Input(
            name="method",
            schema=one_of(
                *(w for m in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS") for w in (m, m.lower()))
            ),
            doc="HTTP method; GET when left out.",
            aliases=("verb", "http_method"),
        ),
        Input(name="params", schema=OBJECT, doc="Query parameters.", aliases=("query", "query_params")),
        Input(name="headers", schema=OBJECT, doc="Request headers.", aliases=("header",)),
        Input(name="json", schema=ANYTHING, doc="Body, sent as JSON.", aliases=("payload", "json_body")),
        Input(name="body", schema=ANYTHING, doc="Body: text as it is, anything else as JSON."),
        Input(name="form", schema=OBJECT, doc="Body, sent as form fields."),
        Input(name="data", schema=ANYTHING, doc="Body; or {query, body} when those are its only keys."),
        AUTH,
    ),
    spec=(
        Input(
            name="ok_statuses",
            schema={"type": "array", "items": {"type": "integer", "minimum": 100, "maximum": 599}},
            doc="Further statuses that count as success.",
        ),
        Input(
            name="follow_redirects",
            schema=FLAG,
            doc="Follow redirects; true when left out.",
            aliases=("allow_redirects",),
        ),
        Input(
            name="verify_ssl",
            schema=FLAG,
            doc="Check the server's certificate; true when left out.",
            aliases=("verify",),
        ),
        Input(name="max_bytes", schema=COUNT, doc="Longest body accepted, decompressed; 64 MiB when left out."),
        _AUTH_MODE,
    ),
    unwraps=True,
    result_keys=("status", "data", "headers", "url"),
    defaults={"timeout": 30},
    credential_types=("bearer", "basic"),
)

NATS = ToolKind(
    name="nats",
    credential_types=("nats",),
    trigger=TriggerKind(
        doc="A new message of a JetStream stream. A durable consumer keeps the position.",
        item="The message: subject, value, headers and sequence.",
        inputs=(
            Input(name="stream", schema=TEXT, doc="The stream.", required=True),
            Input(name="subject", schema=TEXT, doc="Only messages of this subject; it may have the wildcards * and >."),
            AUTH,
        ),
    ),
    error_kinds=("nats.conflict", "nats.error", "nats.input", "nats.missing"),
    doc="Publishes messages, and reads and writes key-value and object buckets of a NATS server.",
    inputs=(
        Input(
            name="op",
            schema=one_of(
                "publish",
                "request",
                "kv_get",
                "kv_put",
                "kv_delete",
                "kv_keys",
                "object_get",
                "object_put",
                "object_delete",
                "object_list",
            ),
            doc="What to do.",
            required=True,
            aliases=("operation",),
        ),
        Input(name="subject", schema=TEXT, doc="Subject to publish to."),
        Input(name="bucket", schema=TEXT, doc="Bucket to read or write."),
        Input(name="key", schema=TEXT, doc="Key or object name in the bucket."),
        Input(name="data", schema=ANYTHING, doc="Value to write or send.", aliases=("value", "payload")),
        Input(name="headers", schema=OBJECT, doc="Message headers."),
        Input(name="stream", schema=TEXT, doc="Stream that must have stored the message."),
        Input(
            name="revision",
            schema=INTEGER,
            doc="With a key: the revision to read. To write: the latest one it must have, 0 if it must not exist.",
        ),
        Input(name="create", schema=FLAG, doc="Create the bucket if it does not exist; false when left out."),
        Input(
            name="format",
            schema=one_of("auto", "json", "text", "base64"),
            doc="How bytes are read; auto recognises JSON objects and lists.",
        ),
        AUTH,
    ),
    defaults={"timeout": 30},
)

MCP_METHODS = ("tools/call", "tools/list", "resources/list", "resources/read")

MCP = ToolKind(
    name="mcp",
    error_kinds=("mcp.denied", "mcp.error", "mcp.input", "mcp.tool", "sandbox.unavailable"),
    credential_types=("mcp",),
    doc="Calls a tool of a Model Context Protocol server, or reads its resources.",
    inputs=(
        Input(
            name="server",
            schema=TEXT,
            doc="Address of the server: https://host/mcp.",
            aliases=("endpoint", "url"),
        ),
        Input(
            name="command",
            schema=TEXTS,
            doc="In place of server: a program and its arguments, which speaks on its standard streams. "
            "It runs only where the operator allows it (--allow mcp).",
        ),
        Input(name="env", schema=OBJECT, doc="With command: variables of its environment."),
        Input(name="method", schema=one_of(*MCP_METHODS), doc="tools/call when left out."),
        Input(name="tool", schema=TEXT, doc="With tools/call: the name of the tool."),
        Input(name="uri", schema=TEXT, doc="With resources/read: the address of the resource."),
        ARGS,
        AUTH,
    ),
    spec=(_AUTH_MODE,),
    one_of=(("server", "command"),),
    open_inputs=True,
    defaults={"timeout": 60},
)

_OFFERED = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "kind": TEXT,
        "description": TEXT,
        "parameters": OBJECT,
        "inputs": OBJECT,
        "arguments": TEXT,
    },
    "required": ["name", "kind"],
}

LLM = ToolKind(
    name="llm",
    error_kinds=("llm.budget", "llm.denied", "llm.error", "llm.input", "llm.schema", "http.status", "http.transport"),
    credential_types=("llm",),
    doc="Asks a language model behind any endpoint that speaks OpenAI's chat protocol.",
    inputs=(
        Input(
            name="url",
            schema=TEXT,
            doc="The endpoint, such as https://api.openai.com/v1; that of the credential when left out.",
            aliases=("endpoint", "base_url"),
        ),
        Input(name="model", schema=TEXT, doc="The model.", required=True),
        Input(name="prompt", schema=ANYTHING, prose=True, doc="What to ask: text as it is, anything else as JSON."),
        Input(
            name="messages",
            schema={"type": "array", "items": OBJECT},
            doc="In place of prompt: the conversation, as {role, content}.",
        ),
        Input(name="system", schema=TEXT, prose=True, doc="The system prompt."),
        Input(name="schema", schema=OBJECT, doc="JSON Schema of the answer, which is then `value`; it is checked."),
        Input(
            name="tools",
            schema={"type": "array", "items": _OFFERED},
            doc="Tasks that the model may call: {name, description, parameters, kind, inputs}. "
            "Its arguments become the input `args`, or the one that `arguments` names.",
        ),
        Input(name="temperature", schema=NUMBER, doc="Passed on."),
        Input(name="top_p", schema=NUMBER, doc="Passed on."),
        Input(name="seed", schema=INTEGER, doc="Passed on."),
        Input(name="stop", schema=TEXT_OR_TEXTS, doc="Passed on."),
        Input(name="max_tokens", schema=COUNT, doc="Most tokens of one answer; passed on."),
        Input(name="stream", schema=FLAG, doc="Have the answer streamed; true when left out."),
        AUTH,
    ),
    spec=(
        Input(name="max_rounds", schema=COUNT, doc="Most answers with tool calls; 8 when left out."),
        Input(name="max_tokens", schema=COUNT, doc="Most tokens of all rounds together; not limited when left out."),
        _AUTH_MODE,
    ),
    one_of=(("prompt", "messages"),),
    defaults={"timeout": 300},
)

KINDS = (HTTP, NATS, MCP, LLM)
