"""A real RabbitMQ for tests, from Debian's packages: one for a test process, started when first asked for.

It starts from an unpacked folder: its emulator is called as its own scripts would, with every path given. It looks for
a daemon `epmd`, which would outlive the tests; so one of its own runs beside it, on a free port.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

from tests.servers.brokers import PASSWORD
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.environments import debian_environment, library_path
from tests.servers.ports import free_port
from tests.servers.programs import ServedProgram

_ERLANG = (
    *("base", "asn1", "crypto", "eldap", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
    *("runtime-tools", "ssl", "syntax-tools", "tools", "xmerl"),
)
_OPTIONS = (
    *("-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "+W", "w", "+sbwt", "none"),
    *("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"),
    *("-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-kernel", "prevent_overlapping_partitions", "false"),
)


class RabbitMq(ServedProgram):
    certificates: Certificates
    tls_port: int

    def __init__(self) -> None:
        root = debian_environment("rabbitmq", "rabbitmq-server", *(f"erlang-{part}" for part in _ERLANG), "libtinfo6")
        self._erlang = root / "usr/lib/erlang"
        self._programs = next(self._erlang.glob("erts-*")) / "bin"
        self._server = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        self._environment = library_path(root)
        super().__init__([str(self._programs / "erlexec"), *_OPTIONS], environment=self._environment)

    def prepare(self) -> None:
        self.certificates, self.tls_port = make_certificates(self.folder), free_port()
        (self.folder / "rabbitmq.conf").write_text(self._configuration())
        (self.folder / "plugins").write_text("[].\n")
        names, between = str(free_port()), str(free_port())
        self._environment |= {
            "ROOTDIR": str(self._erlang),
            "BINDIR": str(self._programs),
            "EMU": "beam",
            "PROGNAME": "erl",
            "HOME": str(self.folder),
            "PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}",
            "SYS_PREFIX": "",
            "ERL_LIBS": str(self._server / "plugins"),
            "ERL_EPMD_PORT": names,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_HOME": str(self._server),
            "RABBITMQ_NODENAME": "noetl@localhost",
            "RABBITMQ_DIST_PORT": between,
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PLUGINS_DIR": str(self._server / "plugins"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(self.folder / "expanded"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(self.folder / "flags"),
        }
        command = [str(self._programs / "epmd"), "-port", names, "-address", "127.0.0.1"]
        self._names = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _configuration(self) -> str:
        files = self.certificates
        lines = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
            f"ssl_options.cacertfile = {files.ca}",
            f"ssl_options.certfile = {files.cert}",
            f"ssl_options.keyfile = {files.key}",
            "default_user = ada",
            f"default_pass = {PASSWORD}",
            "raft.wal_max_size_bytes = 1048576",
            "log.console = true",
            "log.console.level = warning",
            "log.file = false",
        ]
        return "\n".join(lines) + "\n"

    def _wait(self) -> None:
        """On a busy machine it takes minutes; the last listener it opens is the one with TLS."""
        for _ in range(4):
            try:
                super()._wait()
            except AssertionError:
                if self.process.poll() is not None:
                    raise
            else:
                return
        raise AssertionError(f"the server did not listen: {self.log()}")

    def stop(self) -> None:
        super().stop()
        if self._names.poll() is None:
            self._names.kill()
            self._names.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def rabbitmq() -> RabbitMq:
    return RabbitMq()
