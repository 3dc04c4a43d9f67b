"""Kinds that talk to other services: http, nats, mcp."""

from __future__ import annotations

from noetl.net.kinds import Input, ToolKind, TriggerKind
from noetl.tools.kinds.schema_fragments import ANYTHING, ARGS, AUTH, COUNT, FLAG, INTEGER, OBJECT, TEXT, one_of

HTTP = ToolKind(
    name="http",
    error_kinds=("http.status", "http.transport"),
    error_aliases=("rate_limit", "server_error", "auth", "not_found", "client_error", "connection", "network"),
    doc="Calls a URL. A status of 400 or more is an error outcome.",
    inputs=(
        Input(name="url", schema=TEXT, doc="Address to call.", required=True, aliases=("endpoint",)),
        Input(
            name="method",
            schema=one_of(
                *(w for m in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS") for w in (m, m.lower()))
            ),
            doc="HTTP method; GET when left out.",
        ),
        Input(name="params", schema=OBJECT, doc="Query parameters."),
        Input(name="headers", schema=OBJECT, doc="Request headers."),
        Input(name="json", schema=ANYTHING, doc="Body, sent as JSON.", aliases=("payload",)),
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
        Input(name="follow_redirects", schema=FLAG, doc="Follow redirects; true when left out."),
        Input(name="verify_ssl", schema=FLAG, doc="Check the server's certificate; true when left out."),
        Input(name="max_bytes", schema=COUNT, doc="Longest body accepted, decompressed; 64 MiB when left out."),
    ),
    unwraps=True,
    defaults={"timeout": 30},
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
            doc="Of a key: the one to read; or the latest one it must have to be written, 0 for none.",
        ),
        Input(name="create", schema=FLAG, doc="Make the bucket where there is none; false when left out."),
        Input(
            name="format",
            schema=one_of("auto", "json", "text", "base64"),
            doc="How bytes are read; auto takes JSON objects and lists for what they are.",
        ),
        AUTH,
    ),
    defaults={"timeout": 30},
)

MCP = ToolKind(
    name="mcp",
    doc="Calls a tool of a Model Context Protocol server.",
    inputs=(
        Input(name="server", schema=TEXT, doc="Server to call.", required=True, aliases=("endpoint", "url")),
        Input(name="method", schema=TEXT, doc="Protocol method; tools/call when left out."),
        Input(name="tool", schema=TEXT, doc="Name of the tool."),
        ARGS,
        AUTH,
    ),
    plugin="a plug-in for MCP servers",
)

KINDS = (HTTP, NATS, MCP)
