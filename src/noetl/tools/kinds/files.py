"""Kinds that work on files: convert, archive, pgp."""

from __future__ import annotations

from noetl.net.kinds import (
    ANYTHING,
    AUTH,
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    Input,
    Schema,
    ToolKind,
    one_of,
)
from noetl.tools.kinds.storage import STORAGE_ERRORS

FORMATS = ("csv", "json", "jsonl", "parquet", "excel", "xml")
COMPRESSIONS = ("none", "gzip", "bzip2", "xz")
ARCHIVE_OPS = ("pack", "unpack", "list")
ARCHIVE_FORMATS = ("zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "gz")
PGP_OPS = ("encrypt", "decrypt")
PGP_ERRORS = (*("pgp.conflict", "pgp.data", "pgp.denied", "pgp.error", "pgp.input", "pgp.limit", "pgp.missing"),)
CONVERT_ERRORS = ("convert.conflict", "convert.data", "convert.error", "convert.input", "convert.missing")
ARCHIVE_ERRORS = (
    *("archive.conflict", "archive.data", "archive.denied", "archive.error", "archive.input", "archive.limit"),
    *("archive.missing", "archive.unsafe"),
)

_AUTH_OF_END = {"auth": AUTH.schema}
_OF_BOTH: Schema = {
    "url": TEXT,
    **_AUTH_OF_END,
    "format": one_of(*FORMATS),
    "compression": one_of(*COMPRESSIONS),
    "encoding": TEXT,
    "delimiter": TEXT,
    "record": TEXT,
    "sheet": {"anyOf": [TEXT, COUNT]},
}
_OF_SOURCE: Schema = {
    **_OF_BOTH,
    "rows": ANYTHING,
    "text": TEXT,
    "header": {"anyOf": [FLAG, TEXTS]},
    "skip": {"type": "integer", "minimum": 0},
    "types": one_of("detect", "text"),
    "null": TEXT,
    "lists": TEXTS,
    "cell_errors": one_of("fail", "null"),
}
_OF_TARGET: Schema = {**_OF_BOTH, "header": FLAG, "root": TEXT}


def _end(properties: Schema, *more: Schema) -> Schema:
    return {"anyOf": [TEXT, *more, {"type": "object", "properties": properties, "additionalProperties": False}]}


CONVERT = ToolKind(
    name="convert",
    error_kinds=(*CONVERT_ERRORS, *STORAGE_ERRORS),
    doc="Converts tables between CSV, JSON, Parquet, Excel and XML: files, objects, rows and texts.",
    inputs=(
        Input(
            name="source",
            schema=_end(_OF_SOURCE, {"type": "array"}),
            doc="A file in a data folder, a URL, a list of rows, or {url, rows or text} with options.",
            required=True,
            aliases=("from",),
            read_strictly=True,
        ),
        Input(
            name="target",
            schema=_end(_OF_TARGET),
            doc="A file in a data folder, a URL, or {url} with options. Without it the result has the rows; with a "
            "format and no url it has the text.",
            aliases=("to",),
            read_strictly=True,
        ),
        Input(
            name="columns",
            schema={"anyOf": [TEXTS, OBJECT]},
            doc="The columns of the target in their order: names, or a mapping of each name to its type, or to "
            "{from, type}.",
        ),
        Input(name="if_absent", schema=FLAG, doc="Fail with convert.conflict if the target exists."),
        AUTH,
    ),
    spec=(
        Input(name="max_bytes", schema=COUNT, doc="Largest source once it is expanded; 10 GiB when left out."),
        Input(
            name="max_rows",
            schema=COUNT,
            doc="Most rows that the result may have; more rows are the error result.too_large.",
        ),
        Input(name="threads", schema=COUNT, doc="Threads it may use; 2 when left out."),
    ),
    defaults={"timeout": 300},
)

ARCHIVE = ToolKind(
    name="archive",
    error_kinds=(*ARCHIVE_ERRORS, *STORAGE_ERRORS),
    doc="Packs files into an archive, unpacks one safely, or lists it: zip, tar, tar.gz, tar.bz2, tar.xz and gz.",
    inputs=(
        Input(name="op", schema=one_of(*ARCHIVE_OPS), doc="What to do.", required=True, aliases=("operation",)),
        Input(
            name="source",
            schema={
                "anyOf": [
                    TEXT_OR_TEXTS,
                    {"type": "object", "properties": {"url": TEXT_OR_TEXTS, **_AUTH_OF_END}, "required": ["url"]},
                ]
            },
            doc="With unpack and list: the archive, a file in a data folder or a URL. With pack: a file, a folder, or "
            "a list of them.",
            required=True,
            aliases=("from",),
            read_strictly=True,
        ),
        Input(
            name="target",
            schema={"anyOf": [TEXT, {"type": "object", "properties": {"url": TEXT, **_AUTH_OF_END}}]},
            doc="With pack: the archive. With unpack: the folder.",
            aliases=("to",),
            read_strictly=True,
        ),
        Input(
            name="format",
            schema=one_of(*ARCHIVE_FORMATS),
            doc="Of the archive; read from its name when left out.",
        ),
        Input(
            name="members",
            schema=TEXT_OR_TEXTS,
            doc='Only members that match one of these patterns: "*.csv", "2026/*".',
        ),
        Input(name="if_absent", schema=FLAG, doc="With pack: fail with archive.conflict if the archive exists."),
        AUTH,
    ),
    spec=(
        Input(name="max_files", schema=COUNT, doc="Most files of an archive; 10000 when left out."),
        Input(name="max_bytes", schema=COUNT, doc="Most bytes of its files together; 10 GiB when left out."),
        Input(
            name="max_ratio",
            schema=COUNT,
            doc="How many times larger than the archive its files may be, above 64 MiB; 200 when left out.",
        ),
    ),
    defaults={"timeout": 300},
)

_PGP_END: Schema = {
    "anyOf": [TEXT, {"type": "object", "properties": {"url": TEXT, **_AUTH_OF_END}, "required": ["url"]}],
}

PGP = ToolKind(
    name="pgp",
    credential_types=("pgp",),
    error_kinds=(*PGP_ERRORS, *STORAGE_ERRORS),
    doc="Encrypts files for the OpenPGP keys of others, and decrypts those that others sent.",
    inputs=(
        Input(name="op", schema=one_of(*PGP_OPS), doc="What to do.", required=True, aliases=("operation",)),
        Input(
            name="source",
            schema=_PGP_END,
            doc="A file in a data folder, or {url, auth} of an object.",
            required=True,
            aliases=("from",),
            read_strictly=True,
        ),
        Input(
            name="target",
            schema=_PGP_END,
            doc="The new file, or {url, auth} of an object.",
            required=True,
            aliases=("to",),
            read_strictly=True,
        ),
        Input(name="recipients", schema=TEXT_OR_TEXTS, doc="With encrypt: the public keys of those who may read it."),
        Input(name="signers", schema=TEXT_OR_TEXTS, doc="With decrypt: public keys, one of which must have signed it."),
        Input(name="armor", schema=FLAG, doc="With encrypt: write it as text; bytes when left out."),
        Input(name="if_absent", schema=FLAG, doc="Fail with pgp.conflict if the target exists."),
        AUTH,
    ),
    spec=(Input(name="max_bytes", schema=COUNT, doc="Largest file it writes; 10 GiB when left out."),),
    defaults={"timeout": 300},
)

KINDS = (CONVERT, ARCHIVE, PGP)
