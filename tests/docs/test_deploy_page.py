"""The sections of docs/deploy.md that need a database, a broker or a certificate, with real ones and real processes.

The one without any of them is a console block, which tests/docs runs like all others.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.processes_here import Here
from tests.deploy.commands import parsed_command
from tests.forked import run_line
from tests.servers import nats, postgres
from tests.servers.certificates import make_certificates

pytestmark = pytest.mark.timeout(400)  # each of its processes may take its time to start
ROOT = Path(__file__).parents[2]
SECTIONS = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```shell-session\n(.*?)^```", (ROOT / "docs/deploy.md").read_text(), re.M | re.S
)


@pytest.mark.req("CLI-01")
@pytest.mark.parametrize(("name", "text"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_every_command_of_a_section_works(name: str, text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    make_certificates(tmp_path)
    place, database = Here(tmp_path), f"t_{uuid4().hex[:12]}"
    postgres.server().ask(f"CREATE DATABASE {database}")
    more = {"NOETL_DB": f"postgresql://postgres@/{database}?host={postgres.server().socket}"}
    if "cluster" in name:
        more["NOETL_NATS"] = nats.server().url
    environment = place.environment(**more)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    try:
        for command in re.findall(r"^\$ (.*)$", text, re.M):
            done = run_line(command, folder=tmp_path, environment=environment, timeout=500)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        assert list((tmp_path / "home" / "run").glob("*.json")) == [], "everything has ended"
    finally:
        for kind in ("worker", "server"):
            place.call(kind, "stop", "--all", "--force", "--timeout", "5", within_s=110, **more)
        postgres.server().ask(f"DROP DATABASE {database} WITH (FORCE)")


def test_all_sections_of_the_deployment_page_exist() -> None:
    assert [name for name, _ in SECTIONS] == [
        "Credentials and webhooks",
        "With a private certificate",
        "On PostgreSQL",
        "A cluster",
    ]


def written_commands() -> list[str]:
    """Every command of ours in the blocks that are not run, since they need Docker, Kubernetes or systemd."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/deploy.md").read_text(), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [match[1] for line in lines if (match := re.search(r"/bin/noetl (.*)$", line))]


@pytest.mark.parametrize("line", written_commands())
def test_commands_that_are_not_run_are_valid(line: str) -> None:
    parsed_command(shlex.split(line))


def test_commands_that_are_not_run_are_found() -> None:
    assert any("token create workers" in line for line in written_commands())


def test_every_file_that_the_deployment_page_names_exists() -> None:
    named = set(re.findall(r"deploy/[\w./@-]+\w", (ROOT / "docs/deploy.md").read_text())) - {"deploy/compose/secrets"}

    assert {name for name in named if not (ROOT / name).exists() and "secrets/" not in name} == set()
    assert len(named) > 10
