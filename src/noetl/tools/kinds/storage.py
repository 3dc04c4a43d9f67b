"""Kinds that move stored data: artifact, transfer, storage, gcs."""

from __future__ import annotations

from noetl.net.kinds import (
    ANYTHING,
    AUTH,
    COUNT,
    DURATION,
    FLAG,
    OBJECT,
    TEXT,
    TEXTS,
    Input,
    NeededInput,
    ToolKind,
    TriggerKind,
    one_of,
)

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
        Input(
            name="key",
            schema=TEXT,
            doc="Label that its reference carries; the value is found by the reference, not by the label.",
        ),
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
        "kind": one_of("postgres", "duckdb", "sql", "snowflake", "storage", "http", "artifact"),
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
            aliases=("from",),
            schema=_END,
            doc="Where rows come from: {kind: postgres | duckdb | sql | snowflake, query or table, cursor}, "
            "{kind: storage, url, format}, {kind: http, url, rows, page} or {kind: artifact, ref}.",
            required=True,
            read_strictly=True,
        ),
        Input(
            name="target",
            aliases=("to", "destination"),
            schema=_END,
            doc="Where rows go: {kind: postgres | duckdb | sql | snowflake, table}, {kind: storage, url, format}, "
            "{kind: http, url} or {kind: artifact}, with format: parquet as a table.",
            required=True,
            read_strictly=True,
        ),
        Input(
            name="mode",
            schema=one_of("append", "insert", "replace", "upsert", "merge"),
            doc="append when left out; insert is append, merge is upsert.",
            read_strictly=True,
            needs=NeededInput("key", ("upsert", "merge")),
        ),
        Input(name="key", schema={"anyOf": [TEXT, TEXTS]}, doc="With upsert: the key columns."),
        Input(name="mapping", schema=OBJECT, doc="Target column by source column."),
        Input(
            name="chunk_size",
            schema=COUNT,
            doc="Rows moved at once; 1000 when left out, or 100000 where both ends move files.",
        ),
    ),
    defaults={"timeout": 300},
)

STORAGE_OPS = ("get", "put", "list", "delete", "copy", "presign", "watch")
STORAGE_ERRORS = ("storage.conflict", "storage.denied", "storage.error", "storage.input", "storage.missing")

_COPY = {
    "anyOf": [TEXT, {"type": "object", "properties": {"url": TEXT, "auth": AUTH.schema}, "required": ["url"]}],
}

_MAX_BYTES = Input(
    name="max_bytes",
    schema=COUNT,
    doc="Largest object that get returns, 64 MiB when left out, or that is copied to a file, 10 GiB when left out.",
)

STORAGE_TRIGGER = TriggerKind(
    doc="An object or a file that is new, or has changed.",
    item="The object: url, key, size, etag and last_modified.",
    inputs=(
        Input(
            name="url",
            schema=TEXT,
            doc="The folder: s3://bucket/folder, gs://bucket/folder, az://container/folder or file:///folder.",
            required=True,
        ),
        Input(name="pattern", schema=TEXT, doc='Only keys that match, such as "*.csv".'),
        AUTH,
    ),
)

STORAGE = ToolKind(
    name="storage",
    trigger=STORAGE_TRIGGER,
    credential_types=("s3", "gcs", "azure"),
    error_kinds=STORAGE_ERRORS,
    doc="Reads, writes, lists, copies and watches objects in S3, Google Cloud Storage, Azure and local folders.",
    inputs=(
        Input(name="op", schema=one_of(*STORAGE_OPS), doc="What to do.", required=True, aliases=("operation",)),
        Input(
            name="url",
            schema=TEXT,
            doc="The object, or the folder for list and watch: s3://bucket/key, gs://bucket/key, az://container/key "
            "or file:///folder/name.",
            required=True,
            aliases=("uri",),
        ),
        Input(name="target", schema=_COPY, doc="With copy: the URL of the copy, or {url, auth}.", read_strictly=True),
        Input(
            name="data",
            schema=ANYTHING,
            doc="With put: the value. Text as it is, a table as Parquet, anything else as JSON.",
        ),
        Input(
            name="format",
            schema=one_of("auto", "json", "text", "base64"),
            doc="With get: how bytes are read; auto recognises JSON objects and lists. With put: base64 is decoded.",
        ),
        Input(name="media_type", schema=TEXT, doc="With put: the content type; guessed from data when left out."),
        Input(name="if_absent", schema=FLAG, doc="With put and copy: fail with storage.conflict if the object exists."),
        Input(name="if_match", schema=TEXT, doc="With put: the etag that the object must still have."),
        Input(
            name="range",
            schema={"anyOf": [TEXT, OBJECT]},
            doc='With get: some of its bytes, "0-99" or {offset, limit}.',
            read_strictly=True,
        ),
        Input(name="pattern", schema=TEXT, doc='With list and watch: only keys that match, such as "*.csv".'),
        Input(name="recursive", schema=FLAG, doc="With list: all levels, true when left out. With delete: a folder."),
        Input(name="limit", schema=COUNT, doc="With list and watch: most objects returned; 1000 when left out."),
        Input(name="cursor", schema=ANYTHING, doc="With list and watch: the cursor that the last call returned."),
        Input(name="wait", schema=DURATION, doc="With watch: how long to wait for a new object; not at all if absent."),
        Input(name="interval", schema=DURATION, doc="With watch: time between two looks; 5s when left out."),
        Input(name="expires", schema=DURATION, doc="With presign: how long the URL is valid; 1h when left out."),
        Input(name="method", schema=one_of("GET", "PUT"), doc="With presign: what the URL allows; GET when left out."),
        AUTH,
    ),
    spec=(_MAX_BYTES,),
    defaults={"timeout": 300},
)

GCS = ToolKind(
    name="gcs",
    error_kinds=STORAGE_ERRORS,
    doc="Reads and writes objects of Google Cloud Storage, by bucket and object. `storage` does the same by URL.",
    inputs=(
        Input(
            name="op",
            schema=one_of("get", "put", "list", "delete", "upload", "download"),
            doc="What to do.",
            required=True,
            aliases=("operation",),
        ),
        Input(name="bucket", schema=TEXT, doc="Bucket."),
        Input(name="object", schema=TEXT, doc="Object name; with list, the folder.", aliases=("key", "blob")),
        Input(name="data", schema=ANYTHING, doc="Value to put."),
        Input(
            name="source",
            schema=TEXT,
            doc="With upload: the file, in a data folder. With download: gs://bucket/object.",
        ),
        Input(
            name="destination", schema=TEXT, doc="With download: the file, in a data folder. With upload: a gs:// URL."
        ),
        Input(name="media_type", schema=TEXT, doc="What the value is."),
        AUTH,
    ),
    one_of=(("bucket", "source", "destination"),),
    open_inputs=True,
    spec=(_MAX_BYTES,),
    defaults={"timeout": 300},
)

KINDS = (ARTIFACT, TRANSFER, STORAGE, GCS)
