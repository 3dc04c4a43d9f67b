"""Configuration: what the operator of a server decides; the defaults are safe on any machine (design.md §7)."""

from __future__ import annotations

import msgspec

MIB = 1 << 20
# The folder in which the processes of one server count together; prometheus_client reads it when it is imported.
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """How much one subject may use. High on purpose: they are against accidents, and an operator lowers them."""

    open_executions: int = 100_000
    starts_per_minute: int = 60_000
    stored_bytes: int = 64 * 1024 * MIB  # of events, in a day, of executions that the subject has started
    streams: int = 500
    # Must be left on the disk of the store and of results, or nobody starts anything: a full disk stops what runs, too.
    free_bytes: int = 256 * MIB


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is told by its operator."""

    db: str | None = None  # a file or a URL; None: the user's own file
    results: str | None = None  # where large values are kept, if not beside it
    nats: str | None = None  # a broker that wakes workers of several servers sooner
    host: str = "127.0.0.1"
    port: int = 8082
    workers: int = 0  # orders worked on in this process, if any
    # The author sits at the terminal, as with `noetl dev`: the working folder and the environment are open.
    local: bool = False
    # For the worker in this process: tool kinds that are off by default and turned on, kinds that are turned off, and
    # whether code of playbooks runs in sandboxes only.
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sandbox: bool = False
    allow_addresses: tuple[str, ...] = ()  # private addresses and sockets that tools may reach
    proxy: str | None = None  # of requests of tools and for tokens; None: those of the environment
    no_proxy: tuple[str, ...] = ()
    data_folders: tuple[str, ...] = ()
    provider_stand_ins: tuple[str, ...] = ()
    # What keychain entries of kind env and file may read on a server that is not local.
    secret_variables: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # names people reach it by, besides the loopback ones
    strict: bool = False  # playbooks with warnings are not registered
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks; behind a proxy, those of this machine if empty
    max_body_bytes: int = MIB
    max_result_bytes: int = 64 * MIB
    max_table_bytes: int = 32 * 1024 * MIB
    max_connections: int = 10_000  # or fewer, where the system gives fewer open files
    max_connections_per_address: int = 500  # of those over which no token has come
    head_timeout_s: float = 15.0
    body_timeout_s: float = 30.0
    quotas: Quotas = Quotas()
    max_starts_at_once: int = 500
    slow_commit_s: float = 5.0  # past it no new executions are taken until the store is quick again
    lease_ttl_s: float = 30.0  # O-33
    heartbeat_s: float = 5.0
    long_poll_s: float = 30.0
    call_poll_s: float = 25.0
    stream_heartbeat_s: float = 15.0
    stream_patience_s: float = 30.0
    poll_s: float = 1.0
    public_url: str | None = None  # where people reach it: notices link there
    log_level: str = "info"
    drain_s: float = 10.0
    retention_days: float | None = 90.0  # of executions that are over; None keeps them
