"""The settings of a server; the defaults are safe on any machine (design.md §7)."""

from __future__ import annotations

import msgspec

MIB = 1 << 20
# The folder in which the processes of one server share their metrics. prometheus_client reads it at import.
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """How much one subject may use. High by default: they prevent accidents, and an operator can lower them."""

    open_executions: int = 100_000
    starts_per_minute: int = 60_000
    stored_bytes: int = 64 * 1024 * MIB  # of events, in a day, of executions that the subject has started
    streams: int = 500
    # Free space that must be left on the disks of store and results for a start: a full disk stops running executions.
    free_bytes: int = 256 * MIB


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the operator of a server chooses."""

    db: str | None = None  # a file or a URL; None: the user's own file
    results: str | None = None  # where large values are stored; None: beside the store
    nats: str | None = None  # a broker that wakes workers of several servers sooner
    host: str = "127.0.0.1"
    port: int = 8082
    workers: int = 0  # slots of a worker in this process; 0: no worker
    # The author runs the server, as with `noetl dev`: tools may use the working folder and the environment.
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
    # The variables and files that keychain entries may read on a server that is not local.
    secret_variables: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # names people reach it by, besides the loopback ones
    strict: bool = False  # playbooks with warnings are refused
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks; behind a proxy, those of this machine if empty
    # The size of request bodies. Results that workers send have the limits below.
    max_body_bytes: int = MIB
    max_result_bytes: int = 64 * MIB
    max_table_bytes: int = 32 * 1024 * MIB
    max_connections: int = 10_000  # fewer if the system allows fewer open files
    max_connections_per_address: int = 500  # counts connections without a token
    head_timeout_s: float = 15.0
    body_timeout_s: float = 30.0
    quotas: Quotas = Quotas()
    max_starts_at_once: int = 500
    slow_commit_s: float = 5.0  # while commits take longer, no new executions are accepted
    lease_ttl_s: float = 30.0  # O-33
    heartbeat_s: float = 5.0
    long_poll_s: float = 30.0
    # Seconds a worker's request waits for the end of a nested playbook before it asks again.
    call_poll_s: float = 25.0
    # Proxies close a connection that is silent for a minute or less.
    stream_heartbeat_s: float = 15.0
    # A stream, or any other answer, is closed if its reader takes nothing for this long.
    stream_patience_s: float = 30.0
    # How often the store is polled for changes by other servers.
    poll_s: float = 1.0
    public_url: str | None = None  # the address for people; links in notices use it
    log_level: str = "info"
    # How long running requests and tasks may take when the server stops.
    drain_s: float = 10.0
    retention_days: float | None = 90.0  # of executions that are over; None keeps them
