"""Real brokers for tests, from Debian's packages: one of each for a test process, started when first asked for."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.servers.environments import debian_environment, library_path
from tests.servers.programs import FOLDER, PORT, ServedProgram

PASSWORD = "the password of ada"


@cache
def redis_server() -> ServedProgram:
    root = debian_environment("redis", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
    command = [str(root / "usr/bin/redis-check-rdb")]  # one program under several names; redis-server is a link to it
    command = [_named_server(Path(command[0]))]
    options = ["--port", PORT, "--bind", "127.0.0.1", "--dir", FOLDER, "--save", "", "--requirepass", PASSWORD]
    return ServedProgram([*command, *options], environment=library_path(root))


def _named_server(program: Path) -> str:
    link = program.with_name("redis-server")
    if not link.exists():
        link.symlink_to(program)
    return str(link)


class Mosquitto(ServedProgram):
    def __init__(self) -> None:
        packages = ("mosquitto", "libmosquitto1", "libcjson1", "libdlt2", "libwrap0", "libwebsockets17")
        self._root = debian_environment("mosquitto", *packages, "libev4", "libuv1")
        self._environment = library_path(self._root)
        command = [str(self._root / "usr/sbin/mosquitto"), "-c", f"{FOLDER}/mosquitto.conf"]
        super().__init__(command, environment=self._environment)

    def prepare(self) -> None:
        passwords = self.folder / "passwords"
        passwords.write_text(f"ada:{PASSWORD}\n")
        passwords.chmod(0o600)
        program = str(self._root / "usr/bin/mosquitto_passwd")
        subprocess.run([program, "-U", str(passwords)], check=True, capture_output=True, env=self._environment)
        lines = [f"listener {self.port} 127.0.0.1", "user root", f"password_file {passwords}", "allow_anonymous false"]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")


@cache
def mosquitto() -> Mosquitto:
    return Mosquitto()
