"""Kinds that send messages to people or work on other machines: email, slack, teams, ssh, sftp."""

from __future__ import annotations

from noetl.net.kinds import ANYTHING, AUTH, COUNT, FLAG, OBJECT, TEXT, TEXT_OR_TEXTS, Input, ToolKind, one_of

_ATTACHMENTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": TEXT, "data": {}, "file": TEXT, "format": TEXT, "media_type": TEXT},
    },
}

EMAIL = ToolKind(
    name="email",
    credential_types=("email",),
    error_kinds=("email.denied", "email.error", "email.input"),
    doc="Sends an e-mail by SMTP, as text, HTML or both, with attachments.",
    inputs=(
        Input(name="to", schema=TEXT_OR_TEXTS, doc="Recipients: a text, several separated by commas, or a list."),
        Input(name="cc", schema=TEXT_OR_TEXTS, doc="Recipients of a copy."),
        Input(name="bcc", schema=TEXT_OR_TEXTS, doc="Recipients whom the others do not see."),
        Input(
            name="from",
            schema=TEXT,
            doc="The sender; the credential's `from`, else its user, when left out.",
            aliases=("sender",),
        ),
        Input(name="reply_to", schema=TEXT_OR_TEXTS, doc="Where answers go."),
        Input(name="subject", schema=TEXT, doc="The subject.", required=True),
        Input(name="text", schema=TEXT, prose=True, doc="The message as plain text.", aliases=("body",)),
        Input(name="html", schema=TEXT, prose=True, doc="The message as HTML."),
        Input(
            name="attachments",
            schema=_ATTACHMENTS,
            doc="Attachments: {name, data} with a value, or {file} with a path in a data folder. format: base64 marks "
            "data that is base64; media_type is guessed from the name when left out.",
        ),
        Input(name="headers", schema=OBJECT, doc="Further headers by name."),
        AUTH,
    ),
    one_of=(("to", "cc", "bcc"), ("text", "html")),
    defaults={"timeout": 60},
)

_CHAT_ERRORS = ("chat.input", "http.status", "http.transport")
_BLOCKS = {"type": "array", "items": OBJECT}

SLACK = ToolKind(
    name="slack",
    credential_types=("slack",),
    error_kinds=_CHAT_ERRORS,
    doc="Posts a message to a Slack channel by an incoming webhook. The credential holds the webhook's URL.",
    inputs=(
        Input(
            name="text",
            schema=TEXT,
            prose=True,
            doc="The message; with blocks, what notifications show.",
            aliases=("message",),
        ),
        Input(name="blocks", schema=_BLOCKS, doc="Blocks of Slack's Block Kit."),
        Input(name="thread", schema=TEXT, doc="Timestamp of the message to answer.", aliases=("thread_ts",)),
        AUTH,
    ),
    one_of=(("text", "blocks"),),
    defaults={"timeout": 30},
)

TEAMS = ToolKind(
    name="teams",
    credential_types=("teams",),
    error_kinds=_CHAT_ERRORS,
    doc="Posts a message to a Microsoft Teams channel by a workflow webhook. The credential holds the webhook's URL.",
    inputs=(
        Input(name="text", schema=TEXT, prose=True, doc="The message.", aliases=("message",)),
        Input(name="title", schema=TEXT, doc="A heading above the message."),
        Input(name="card", schema=OBJECT, doc="An Adaptive Card, in place of text."),
        AUTH,
    ),
    one_of=(("text", "card"),),
    defaults={"timeout": 30},
)

SFTP_OPERATIONS = ("get", "put", "list", "delete", "download", "upload")

SSH = ToolKind(
    name="ssh",
    result_keys=("exit_code", "stdout", "stderr"),
    credential_types=("ssh",),
    error_kinds=("ssh.denied", "ssh.error", "ssh.exit", "ssh.host_key", "ssh.input"),
    doc="Runs a command on another machine. Template values in the command are quoted as single arguments.",
    inputs=(
        Input(
            name="command", schema=TEXT, doc="The command, for the login shell of the user.", required=True, quoted=True
        ),
        Input(name="stdin", schema=ANYTHING, doc="What the command reads: text as it is, anything else as JSON."),
        Input(name="env", schema=OBJECT, doc="Environment variables, where the server accepts them."),
        AUTH,
    ),
    spec=(Input(name="max_bytes", schema=COUNT, doc="Longest output kept of each stream; 1 MiB when left out."),),
    defaults={"timeout": 300},
)

SFTP = ToolKind(
    name="sftp",
    error_kinds=(
        "sftp.conflict",
        "sftp.denied",
        "sftp.error",
        "sftp.input",
        "sftp.missing",
        "ssh.denied",
        "ssh.error",
        "ssh.host_key",
    ),
    doc="Reads, writes, lists and deletes files of another machine by SFTP.",
    inputs=(
        Input(name="op", schema=one_of(*SFTP_OPERATIONS), doc="What to do.", required=True, aliases=("operation",)),
        Input(name="path", schema=TEXT, doc="The file or folder on the other machine.", required=True),
        Input(name="file", schema=TEXT, doc="With download and upload: the file here, in a data folder."),
        Input(name="data", schema=ANYTHING, doc="With put: the value. Text as it is, anything else as JSON."),
        Input(
            name="format",
            schema=one_of("auto", "json", "text", "base64"),
            doc="With get: how bytes are read. With put: base64 is decoded.",
        ),
        Input(name="if_absent", schema=FLAG, doc="With put and upload: fail with sftp.conflict if the file exists."),
        AUTH,
    ),
    spec=(
        Input(
            name="max_bytes",
            schema=COUNT,
            doc="Largest file that get returns, 64 MiB when left out, or that download writes, 10 GiB when left out.",
        ),
    ),
    defaults={"timeout": 300},
)

KINDS = (EMAIL, SLACK, TEAMS, SSH, SFTP)
