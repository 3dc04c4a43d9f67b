"""Kinds that move stored data: artifact, transfer, gcs."""

from __future__ import annotations

from noetl.net.kinds import Input, ToolKind
from noetl.tools.kinds.schema_fragments import ANYTHING, AUTH, COUNT, OBJECT, TEXT, TEXTS, one_of

ARTIFACT_OPS = {
    **dict.fromkeys(("get", "read", "load", "fetch"), "get"),
    **dict.fromkeys(("put", "write", "save", "store"), "put"),
}

ARTIFACT = ToolKind(
    name="artifact",
    error_kinds=("artifact.input",),
    doc="Puts a value into the results store, or gets one by its reference.",
    inputs=(
        Input(
            name="op",
            schema=one_of(*ARTIFACT_OPS),
            doc="put with data, else get. read, load and fetch are get; write, save and store are put.",
            aliases=("action",),
            read_strictly=True,
        ),
        Input(
            name="ref",
            schema={"anyOf": [TEXT, OBJECT]},
            doc="Reference to get.",
            aliases=("reference", "uri"),
            read_strictly=True,
        ),
        Input(name="data", schema=ANYTHING, doc="Value to put.", aliases=("value",)),
        Input(name="key", schema=TEXT, doc="Label that its reference carries; it is found again by the reference."),
        Input(name="media_type", schema=TEXT, doc="What the value is: text/csv, application/json, …"),
        Input(
            name="range",
            schema={"anyOf": [TEXT, OBJECT]},
            doc='With get: a stretch of a list or a text, "0-99" or {offset, limit}.',
            read_strictly=True,
        ),
    ),
    one_of=(("ref", "data"),),
    defaults={"timeout": 300},
)

_END = {
    "type": "object",
    "properties": {
        "kind": one_of("postgres", "duckdb", "http", "artifact"),
        "auth": {"anyOf": [TEXT, OBJECT]},
    },
    "required": ["kind"],
    "aliases": {"type": "kind"},
}

TRANSFER = ToolKind(
    name="transfer",
    doc="Moves rows from one source to another, in chunks.",
    inputs=(
        Input(
            name="source",
            schema=_END,
            doc="Where rows come from: {kind: postgres | duckdb, query or table, cursor}, "
            "{kind: http, url, rows, page} or {kind: artifact, ref}.",
            required=True,
            read_strictly=True,
        ),
        Input(
            name="target",
            schema=_END,
            doc="Where rows go: {kind: postgres | duckdb, table}, {kind: http, url} or {kind: artifact}.",
            required=True,
            read_strictly=True,
        ),
        Input(
            name="mode",
            schema=one_of("append", "replace", "upsert"),
            doc="append when left out.",
            read_strictly=True,
        ),
        Input(name="key", schema={"anyOf": [TEXT, TEXTS]}, doc="With upsert: the key columns."),
        Input(name="mapping", schema=OBJECT, doc="Target column by source column."),
        Input(name="chunk_size", schema=COUNT, doc="Rows moved at once; 1000 when left out."),
    ),
    defaults={"timeout": 300},
)

GCS = ToolKind(
    name="gcs",
    doc="Reads and writes objects of Google Cloud Storage.",
    inputs=(
        Input(name="op", schema=one_of("get", "put", "list", "delete"), doc="What to do.", required=True),
        Input(name="bucket", schema=TEXT, doc="Bucket.", required=True),
        Input(name="object", schema=TEXT, doc="Object name.", aliases=("key", "blob")),
        Input(name="data", schema=ANYTHING, doc="Value to put."),
        Input(name="source", schema=TEXT, doc="File to put."),
        Input(name="media_type", schema=TEXT, doc="What the value is."),
        AUTH,
    ),
    plugin="a plug-in for Google Cloud Storage",
    defaults={"timeout": 300},
)

KINDS = (ARTIFACT, TRANSFER, GCS)
