"""`make sbom` and `make audit`: what they do with what their tools say. Stand-ins for these need no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "supply_chain.sh"
FOUND = "Found 1 known vulnerability in 1 package"


def ran(root: Path, verb: str, auditor: str = "exit 0") -> subprocess.CompletedProcess[str]:
    tools = root / ".venv" / "supply-chain" / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    (root / "tools").mkdir(exist_ok=True)
    shutil.copy(SCRIPT, root / "tools")
    shutil.copy(SCRIPT.with_name("version.py"), root / "tools")
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 — 2026-01-02\n")
    (root / "pyproject.toml").write_text('[project]\nname = "x"\ndynamic = ["version"]\n')
    if not (python := root / ".venv" / "bin" / "python").exists():
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    programs = {
        "pip-audit": auditor,
        "cyclonedx-py": 'for file; do :; done; echo "{}" > "$file"; echo "$@" > asked; cp "$4" project',
    }
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    return subprocess.run(
        ["sh", str(root / "tools" / "supply_chain.sh"), verb], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_bill_of_materials_lists_the_locked_dependencies(tmp_path: Path) -> None:
    done = ran(tmp_path, "sbom")

    assert (done.returncode, done.stdout) == (0, "dist/noetl.cdx.json\n")
    assert (tmp_path / "dist" / "noetl.cdx.json").exists()
    assert "requirements requirements.lock" in (tmp_path / "asked").read_text()
    assert tomllib.loads((tmp_path / "project").read_text())["project"]["version"] == "1.2.3"


@pytest.mark.parametrize(
    ("auditor", "code", "is_loud"),
    [
        ("echo No known vulnerabilities found", 0, False),
        (f"echo '{FOUND}'; exit 1", 1, False),
        (f"echo '{FOUND}: a connection through a proxy'; exit 1", 1, False),
        ("echo 'requests.exceptions.ConnectionError: timed out'; exit 1", 0, True),
        ("echo 'requirements.lock: no such file'; exit 2", 2, False),
    ],
    ids=["nothing known", "something known", "known in words of the network", "unreachable", "broken"],
)
def test_an_audit_fails_for_known_vulnerabilities_and_warns_if_it_could_not_run(
    tmp_path: Path, auditor: str, code: int, is_loud: bool
) -> None:
    done = ran(tmp_path, "audit", auditor)

    assert done.returncode == code
    assert ("NOT AUDITED" in done.stderr) == is_loud
