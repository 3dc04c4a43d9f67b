"""compose.yaml: valid, its commands ours, its secrets made by the script, and its setup, servers and workers run here
one after another, with a real PostgreSQL and NATS in place of the containers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from noetl.client import Client
from tests.cli.processes_here import Here
from tests.deploy.commands import parsed_command, refuse_unknown_variables
from tests.deploy.image import ROOT
from tests.servers import nats, postgres

COMPOSE = ROOT / "deploy" / "compose.yaml"
FILE: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
SERVICES: dict[str, Any] = FILE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("${NOETL_IMAGE")}
SCRIPT = ROOT / "deploy" / "compose" / "secrets.sh"


def test_the_file_is_valid_compose() -> None:
    compose_spec = pytest.importorskip("compose_spec", reason="make test installs requirements-deploy.lock")

    parsed = compose_spec.PyCompose.from_yaml(interpolated(yaml.safe_dump(FILE)))
    parsed.validate()

    assert set(parsed.service_names()) == {
        "postgres",
        "nats",
        "setup",
        "server-1",
        "server-2",
        "worker-1",
        "worker-2",
        "proxy",
    }


def interpolated(text: str) -> str:
    """With the defaults of its variables, as Compose reads it."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@pytest.mark.parametrize("name", OURS)
def test_every_command_and_variable_exists_in_noetl(name: str) -> None:
    service = OURS[name]
    refuse_unknown_variables(service["environment"])
    lines = service["command"]
    if "entrypoint" in service:
        for line in lines[0].splitlines():
            parsed_command(shlex.split(line)[1:])
    else:
        parsed_command(lines)


@pytest.mark.parametrize("name", OURS)
def test_our_containers_drop_all_privileges(name: str) -> None:
    service = OURS[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "ports" not in service


def test_every_reference_of_a_service_is_declared_and_every_file_exists(tmp_path: Path) -> None:
    made = secrets_made(tmp_path)
    for service in SERVICES.values():
        assert set(service.get("secrets", ())) <= FILE["secrets"].keys()
        assert set(service["networks"]) <= FILE["networks"].keys()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in FILE["volumes"] or (COMPOSE.parent / source).exists(), source
    assert {Path(one["file"]).name for one in FILE["secrets"].values()} == {file.name for file in made.iterdir()}
    assert (COMPOSE.parent / SERVICES["server-1"]["build"]["context"] / "deploy" / "Dockerfile").exists()


def secrets_made(folder: Path) -> Path:
    """What the script makes, in a copy, so that nothing is left in the checkout."""
    shutil.copy(SCRIPT, folder / "secrets.sh")
    subprocess.run(["sh", str(folder / "secrets.sh")], check=True, capture_output=True)
    return folder / "secrets"


def test_secrets_are_readable_by_their_owner_only_and_not_regenerated(tmp_path: Path) -> None:
    made = secrets_made(tmp_path)
    first = {file.name: file.read_text() for file in made.iterdir()}

    secrets_made(tmp_path)

    assert {file.name: file.read_text() for file in made.iterdir()} == first
    assert {file.stat().st_mode & 0o777 for file in made.iterdir()} == {0o600}


@pytest.mark.timeout(400)
def test_setup_servers_and_workers_run_a_playbook(tmp_path: Path) -> None:
    made = secrets_made(tmp_path)
    place, database = Here(tmp_path), f"t_{uuid4().hex[:12]}"
    postgres.server().create(database)
    url = f"postgresql://postgres@/{database}?host={postgres.server().socket}"
    try:
        for _ in range(2):  # it runs before every start
            run_setup(place, made, url)
        for name in ("server-1", "server-2"):
            start(place, name, made, NOETL_DB=url, NOETL_NATS=nats.server().url)
        for name in ("worker-1", "worker-2"):
            start(place, name, made)
        with Client(place.url, (made / "admin.token").read_text().strip()) as client:
            workers = {one.worker_id for one in client.workers() if one.live}
            ended = client.run(client.register(ROOT / "examples" / "hello.yaml").path)
    finally:
        place.end()
        postgres.server().ask(f"DROP DATABASE {database} WITH (FORCE)")

    assert len(workers) == 2
    assert ended.status == "completed"


def inside(text: str, made: Path, place: Here) -> str:
    """What a container would see, as it is here."""
    here = {"/run/secrets": str(made), "/var/lib/noetl": str(place.home), "0.0.0.0": "127.0.0.1"}
    for there, path in here.items():
        text = text.replace(there, path)
    return interpolated(text)


def variables(name: str, made: Path, place: Here) -> dict[str, str]:
    return {key: inside(value, made, place) for key, value in OURS[name]["environment"].items()}


def run_setup(place: Here, made: Path, url: str) -> None:
    script = inside(OURS["setup"]["command"][0].replace("$$", "$"), made, place)
    environment = place.environment(**{**variables("setup", made, place), "NOETL_DB": url})
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", script], env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def start(place: Here, name: str, made: Path, **more: str) -> None:
    words = [inside(word, made, place) for word in OURS[name]["command"]]
    kind = words[0]
    if kind == "server":
        words += ["--port", "0"]
    else:
        words[words.index("--server") + 1] = place.url
    child = place.spawn(*words, **{**variables(name, made, place), **more})
    record = place._word(child, kind)
    if kind == "server" and not place.url:
        place.url = str(record["url"])
