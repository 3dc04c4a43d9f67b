"""Settings: where things are kept, and what an operator may choose.

A flag comes before a `NOETL_*` variable, that before `.env` of the working folder, that before `noetl.toml` or
`[tool.noetl]` of a `pyproject.toml` in it or above, that before the user's own `config.toml`, that before the default.
An unknown key is an error. `NOETL_HOME` overrides the user's folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import msgspec

from noetl.base.errors import RefusedError

PREFIX = "NOETL_"
_IS_LINUX = sys.platform == "linux"
SECRETS = frozenset({"token", "proxy"})  # settings whose value is never shown
# Variables of ours that are not settings: they are not typos, so they are not compared with the names of settings.
_OTHER_VARIABLES = frozenset({"NOETL_HOME", "NOETL_MASTER_KEY", "NOETL_MASTER_KEY_FILE"})
_FLAG, _DEFAULT = "flag", "default"


def home() -> Path:
    """The folder of the default store."""
    chosen = os.environ.get("NOETL_HOME")
    if chosen:
        return Path(chosen).expanduser()
    if _IS_LINUX:
        return _folder_of_user("XDG_DATA_HOME", ".local/share")
    from platformdirs import user_data_path

    return user_data_path("noetl", appauthor=False)


def config_folder() -> Path:
    """The folder of the user's own settings, contexts and tokens."""
    if os.environ.get("NOETL_HOME"):
        return home()
    if _IS_LINUX:
        return _folder_of_user("XDG_CONFIG_HOME", ".config")
    from platformdirs import user_config_path

    return user_config_path("noetl", appauthor=False)


def _folder_of_user(variable: str, usual: str) -> Path:
    """The same folder as from platformdirs on Linux. Importing that package took a fiftieth of a cold `noetl run`."""
    chosen = os.environ.get(variable, "")
    return Path(chosen if os.path.isabs(chosen) else Path.home() / usual) / "noetl"


def state_folder() -> Path:
    """The folder for the records of started servers and workers."""
    return home() / "run"


def default_db() -> Path:
    """The file that `run`, `dev` and the reading commands share."""
    return home() / "noetl.db"


def results_folder(db: Path) -> Path:
    """Where the large results of a store are kept: beside it."""
    return db.with_name(db.name + ".results")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be chosen. `DESCRIPTIONS` says what each one is for."""

    db: str | None = None
    results: str | None = None
    nats: str | None = None
    host: str = "127.0.0.1"
    port: int = 8082
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    public_url: str | None = None
    processes: int = 1
    workers_in_process: int = 0
    token_file: str | None = None
    secret_variables: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    lease_ttl: float = 30.0
    heartbeat: float = 5.0
    max_body_bytes: int = 1 << 20
    max_result_bytes: int = 64 << 20
    retention_days: float | None = 90.0
    max_connections: int = 10_000
    max_connections_per_address: int = 500
    quota_open_executions: int = 100_000
    quota_starts_per_minute: int = 60_000
    quota_stored_bytes: int = 64 << 30
    quota_streams: int = 500
    min_free_bytes: int = 256 << 20
    log_level: str = "info"
    strict: bool = False
    server: str | None = None
    token: str | None = None
    ca: str | None = None
    context: str | None = None
    pools: tuple[str, ...] = ("default",)
    concurrency: int = 8
    drain_timeout: float = 30.0
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sandbox: bool = False
    data_folders: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    provider_stand_ins: tuple[str, ...] = ()
    allow_addresses: tuple[str, ...] = ()
    proxy: str | None = None
    no_proxy: tuple[str, ...] = ()


# What each setting is for, in the order of the reference page (docs/settings.md is made from this table).
DESCRIPTIONS = {
    "db": "The store: a file, or a postgresql:// URL. Without it, the file in your data folder.",
    "results": "Where large results are stored: a folder, an object store or a NATS broker; else beside the store.",
    "nats": "URL of a NATS broker that wakes workers of several servers sooner.",
    "host": "Address the server listens on.",
    "port": "Port the server listens on.",
    "tls_cert": "PEM file with the server's certificate.",
    "tls_key": "PEM file with the certificate's key.",
    "behind_proxy": "A proxy in front of the server does TLS.",
    "trusted_proxies": "Addresses and networks of proxies whose word on where a request comes from is believed.",
    "allowed_hosts": "Host names the server answers to, besides this machine's; `*.example.org` takes all below it.",
    "public_url": "Address under which people reach the server; notices link to executions there.",
    "processes": "Processes of the server, on one port; more than one needs a store in PostgreSQL.",
    "workers_in_process": "Orders that each process of the server runs at once; 0 leaves all of them to workers.",
    "token_file": "File with the token: of a command or worker to send, of a first server start to write.",
    "secret_variables": "Variables of a server's environment that keychain entries of kind env may read.",
    "secret_folders": "Folders on a server whose files keychain entries of kind file may read.",
    "lease_ttl": "Seconds a worker may hold an order without a heartbeat.",
    "heartbeat": "Seconds between heartbeats of a worker.",
    "max_body_bytes": "Largest body of a request.",
    "max_result_bytes": "Largest value that a worker may store. A report of a worker has at most 8 MiB.",
    "retention_days": "Days after which executions that are over are deleted.",
    "max_connections": "Most open connections.",
    "max_connections_per_address": "Most open connections of one address that has not signed in.",
    "quota_open_executions": "Most open executions of one subject.",
    "quota_starts_per_minute": "Most starts of one subject in a minute.",
    "quota_stored_bytes": "Most bytes that executions of one subject may store in a day.",
    "quota_streams": "Most event streams of one subject.",
    "min_free_bytes": "Free bytes on the disk below which no execution is started.",
    "log_level": "Least severe log lines that a server writes: debug, info, warning or error.",
    "strict": "Playbooks with warnings are refused, by servers and by `run` and `register` on a file.",
    "server": "URL of a server, or the name of a context, for commands and workers.",
    "token": "Token to send. A variable or a file is safer than a flag.",
    "ca": "PEM file with the authority of a server's private certificate.",
    "context": "Name of the context to use.",
    "pools": "Pools whose orders a worker takes.",
    "concurrency": "Orders that a worker runs at once.",
    "drain_timeout": "Seconds a worker that is stopped may finish what it runs.",
    "allow": "Tool kinds to turn on that are off by default.",
    "deny": "Tool kinds to turn off.",
    "sandbox": "Code of playbooks runs in sandboxes only.",
    "data_folders": "Folders that tasks may read and write files in.",
    "interpreters": "Interpreters whose packages kinds of tasks use in place of the worker's: dbt=/opt/dbt/bin/python.",
    "provider_stand_ins": "Providers of jobs that stand in for others: ibm=simulator.",
    "allow_addresses": "Private networks, addresses and host names that tools may reach all the same.",
    "proxy": "URL of a proxy for requests of the http tool and for tokens.",
    "no_proxy": "Hosts that are reached without the proxy.",
}
_TYPES = get_type_hints(Settings)
_TYPE_WORDS = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (tuple[str, ...], "a list of texts"),
    (str, "a text"),
)
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class Loaded(msgspec.Struct, frozen=True):
    """The effective settings, and where the value of each was found."""

    settings: Settings
    origins: dict[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """All layers laid over each other; a flag that is None was not given. RefusedError names what is wrong where."""
    environment = os.environ if environment is None else environment
    folder = Path.cwd() if folder is None else folder
    chosen: dict[str, Any] = {}
    origins = dict.fromkeys(_TYPES, _DEFAULT)
    for origin, values in _layers(flags or {}, environment, folder):
        chosen |= values
        origins |= dict.fromkeys(values, origin)
    return Loaded(Settings(**chosen), origins)


def _layers(
    flags: Mapping[str, Any], environment: Mapping[str, str], folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """From the weakest to the strongest."""
    for file in (config_folder() / "config.toml", _project_file(folder)):
        if file is not None and file.is_file():
            yield str(file), _checked(_table(file), str(file))
    dotenv = folder / ".env"
    if dotenv.is_file():
        yield str(dotenv), _from_variables(_lines(dotenv), str(dotenv))
    for name, value in _from_variables(environment, "the environment").items():
        yield PREFIX + name.upper(), {name: value}
    yield _FLAG, {name: _converted_value(name, value, _FLAG) for name, value in flags.items() if value is not None}


def _project_file(folder: Path) -> Path | None:
    """The nearest `noetl.toml`, or `pyproject.toml` that speaks of us, in the folder or above."""
    for place in (folder, *folder.parents):
        if (place / "noetl.toml").is_file():
            return place / "noetl.toml"
        if (project := place / "pyproject.toml").is_file():
            # Most projects have no settings of NoETL: their files need not be parsed at the start of every command.
            return project if b"noetl" in _content(project) and _table(project) else None
    return None


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise RefusedError(f"{file} cannot be read: {problem.strerror}") from None


def _table(file: Path) -> dict[str, Any]:
    try:
        read = _parsed(_content(file))
    except ValueError as problem:  # it is no UTF-8, or no TOML
        raise RefusedError(f"{file} cannot be read: {problem}") from None
    if file.name != "pyproject.toml":
        return read
    table = read.get("tool", {}).get("noetl", {})
    return table if isinstance(table, dict) else {}


@lru_cache(maxsize=4)
def _parsed(content: bytes) -> dict[str, Any]:
    """Cached: the search for the nearest file parses it too, and a worker reads settings more than once. Parsing a
    long pyproject.toml takes ten milliseconds. Callers must not change the returned dict."""
    import tomllib

    return tomllib.loads(content.decode("utf-8"))


def _checked(table: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A file's settings: every key must be known."""
    known = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _TYPES:
            raise RefusedError(_unknown(f'{origin}: there is no setting "{key}"', name))
        known[name] = _converted_value(name, value, f"{origin}: {key}")
    return known


def _from_variables(variables: Mapping[str, str], origin: str) -> dict[str, Any]:
    """Settings among variables. Other programs may use our prefix too, so only a likely misspelling is an error."""
    found: dict[str, Any] = {}
    for variable, text in variables.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or not text:
            continue
        if name in _TYPES:
            found[name] = _converted_value(name, text, f"{origin}: {variable}")
        elif variable not in _OTHER_VARIABLES and _nearest_setting(name, 0.85):
            raise RefusedError(_unknown(f'{origin}: there is no setting "{variable}"', name))
    return found


def _unknown(sentence: str, name: str) -> str:
    close = _nearest_setting(name, 0.6)
    return f'{sentence}; did you mean "{close}"?' if close else f"{sentence}; there are {', '.join(_TYPES)}"


def _nearest_setting(name: str, cutoff: float) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, _TYPES, n=1, cutoff=cutoff)), None)


def _converted_value(name: str, value: Any, place: str) -> Any:
    wanted = _TYPES[name]
    if isinstance(value, str) and wanted == tuple[str, ...]:
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, str) and wanted is bool:
        value = _WORDS.get(value.lower(), value)
    try:
        return msgspec.convert(value, wanted, strict=False)
    except msgspec.ValidationError:
        # In the words of the file: those of the decoder name types of Python. The value of a secret is not repeated.
        found = "not" if name in SECRETS else f"{value!r}, not"
        raise RefusedError(f"{place} is {found} {_type_words(wanted)}") from None


def _type_words(wanted: Any) -> str:
    types = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    return next((words for kind, words in _TYPE_WORDS if kind in types), "a value of this setting")


def _lines(file: Path) -> dict[str, str]:
    """The variables of a `.env` file: KEY=value, `#` begins a comment, quotes around a value are removed."""
    found = {}
    for line in file.read_text("utf-8").splitlines():
        key, sign, value = line.strip().removeprefix("export ").partition("=")
        if sign and not key.startswith("#"):
            value = value.strip()
            quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
            found[key.strip()] = value[1:-1] if quoted else value.partition(" #")[0].strip()
    return found
