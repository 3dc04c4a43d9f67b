"""A real MariaDB for tests, from Debian's package: one for each test process, started when first asked for."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

from tests.servers.environments import debian_environment, library_path
from tests.servers.programs import FOLDER, PORT, ServedProgram

USER, PASSWORD, DATABASE = "app", "p@ss/w'ord", "shop"
_SCRIPTS = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


class MariaDb(ServedProgram):
    def __init__(self) -> None:
        root = debian_environment("mariadb", "mariadb-server-core", "liburing2", "libaio1", "libnuma1")
        self._share = root / "usr/share/mysql"
        self._program = [
            str(root / "usr/sbin/mariadbd"),
            "--no-defaults",
            "--user=root",
            f"--datadir={FOLDER}/data",
            f"--lc-messages-dir={self._share}",
        ]
        self._environment = library_path(root)
        listening = ["--bind-address=127.0.0.1", f"--port={PORT}", f"--socket={FOLDER}/mariadb.sock"]
        small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"]
        super().__init__([*self._program, *listening, *small], environment=self._environment)

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        text = "CREATE DATABASE mysql;\nUSE mysql;\n" + "".join((self._share / name).read_text() for name in _SCRIPTS)
        quoted = PASSWORD.replace("'", "''")
        text += (
            f"FLUSH PRIVILEGES;\nCREATE USER '{USER}'@'%' IDENTIFIED BY '{quoted}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%';\nCREATE DATABASE {DATABASE};\n"
        )
        command = [part.replace(FOLDER, str(self.folder)) for part in self._program]
        subprocess.run(
            [*command, "--bootstrap", "--skip-networking"],
            input=text.encode(),
            check=True,
            capture_output=True,
            env=self._environment,
            timeout=500,
        )

    @property
    def auth(self) -> dict[str, Any]:
        where = {"dialect": "mysql", "host": "127.0.0.1", "port": self.port}
        return {**where, "user": USER, "password": PASSWORD, "database": DATABASE}


@cache
def mariadb() -> MariaDb:
    return MariaDb()
