"""The image: what its Dockerfile copies is there, its commands are ours, its health check tells the truth, and, with
`make test-deep`, every step of it is run."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes_here import Here
from tests.deploy.commands import parsed_command, refuse_unknown_variables
from tests.deploy.image import DOCKERFILE, ROOT, Stage, Walk, stages

IGNORED = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
STAGES = {stage.name: stage for stage in stages(DOCKERFILE.read_text())}


def is_sent(path: str) -> bool:
    """Whether .dockerignore leaves a file in the build context: the last line that fits it or a folder above says."""
    sent = True
    for line in IGNORED:
        pattern = line.removeprefix("!").removeprefix("**/")
        places = [path, *map(str, Path(path).parents)]
        fits = [pattern, f"*/{pattern}"] if "**/" in line else [pattern]
        if any(fnmatch.fnmatchcase(place, one) for place in places for one in fits):
            sent = line.startswith("!")
    return sent


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The build context: the tracked and new files of the checkout that .dockerignore leaves."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if is_sent(name) and (ROOT / name).is_file():
            (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "context" / name)
    return tmp_path / "context"


def copies(stage: Stage) -> Iterator[tuple[str | None, list[str], str]]:
    for one in stage.instructions:
        if one.name == "COPY":
            *words, place = one.text.split()
            source = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
            yield source, words, place


def test_the_build_context_contains_exactly_the_copied_files(context: Path) -> None:
    copied = {
        name for stage in STAGES.values() for source, names, _ in copies(stage) if source is None for name in names
    }

    assert [name for name in copied if not (context / name).exists()] == []
    sent = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
    assert [name for name in sent if not any(name == one or name.startswith(one + "/") for one in copied)] == []


def test_every_source_of_the_wheel_is_copied_into_its_build_stage() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = {name for _, names, _ in copies(STAGES["build"]) for name in names}

    needed = {
        *wheel.get("force-include", {}),
        project["project"]["readme"],
        *project["project"]["license-files"],
        "src",
    }
    assert needed - copied == set()


def test_the_image_runs_as_an_unprivileged_user_and_starts_a_server() -> None:
    final = {one.name: one.text for one in STAGES["final"].instructions}
    walk = Walk(ROOT, ROOT)
    walk.settings = final

    assert final["USER"] == "10001:10001"
    assert walk.words("ENTRYPOINT") == ["noetl"]
    parsed_command(walk.words("CMD"))
    assert walk.words("HEALTHCHECK") == ["noetl-healthcheck"]
    refuse_unknown_variables(word.partition("=")[0] for word in final["ENV"].split())


def test_the_image_has_the_tested_dependency_versions() -> None:
    tested = pinned(ROOT / "requirements.lock")
    shipped = pinned(ROOT / "deploy" / "requirements.lock")

    assert {name: version for name, version in shipped.items() if tested.get(name) != version} == {}
    assert {"asyncpg", "nats-py", "duckdb", "obstore", "uvicorn"} <= shipped.keys()
    assert not {"pytest", "mypy", "playwright"} & shipped.keys()


def pinned(lock: Path) -> dict[str, str]:
    lines = (line.split()[0].partition("==") for line in lock.read_text().splitlines() if "==" in line)
    return {name: version for name, _, version in lines}


def healthcheck(place: Here) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "deploy" / "healthcheck.py")],
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_the_health_check_recognises_a_ready_server_and_a_live_worker(tmp_path: Path) -> None:
    place = Here(tmp_path)
    try:
        nobody = healthcheck(place)
        place.server()
        with_server = healthcheck(place)
        worker = place.worker()
        server = place.children[0]
        server.kill()
        server.wait(60)
        with_worker = healthcheck(place)
        worker.kill()
        worker.wait(60)
        after = healthcheck(place)
    finally:
        place.end()

    assert (nobody.returncode, nobody.stderr) == (1, "neither a server nor a worker runs here\n")
    assert with_server.returncode == 0, with_server.stderr
    assert with_worker.returncode == 0, with_worker.stderr
    assert after.returncode == 1


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("bwrap") is None or os.geteuid() != 0, reason="bwrap runs the steps, as root")
@pytest.mark.skipif(shutil.which("npm") is None, reason="the first stage builds the web UI with Node")
def test_every_step_of_the_build_runs_and_the_image_serves(context: Path, tmp_path: Path) -> None:
    walk = Walk(tmp_path, context)
    for stage in STAGES.values():
        root = walk.build(stage)

    version = walk.run(root, "/var/lib/noetl", ["noetl", "--version"], as_user=True)
    assert version.startswith("noetl")
    walk.run(root, "/var/lib/noetl", ["sh", "-c", served_and_checked(walk)], as_user=True)
    assert (root / "opt/noetl/lib").is_dir()
    assert list((root / "opt/noetl").rglob("_ui/index.html")), "the web UI is in the image"
    assert list((root / "opt/noetl").rglob("_docs/index.html")), "the documentation is in the image"
    assert not list((root / "opt/noetl/bin").glob("pip*"))


def served_and_checked(walk: Walk) -> str:
    """Start what the image starts until its health check is content; both in one namespace, as in a container."""
    serve = " ".join([*walk.words("ENTRYPOINT"), *walk.words("CMD"), "--port", "0"])
    check = " ".join(walk.words("HEALTHCHECK"))
    return (
        f"{serve} & server=$!\n"
        f"for attempt in $(seq 300); do {check} && healthy=1 && break; sleep 0.2; done\n"
        'kill $server; wait $server; test "$healthy" = 1'
    )
