"""The systemd units: their commands and variables are ours, and systemd itself finds nothing wrong with them."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.commands import parsed_command, refuse_unknown_variables
from tests.deploy.image import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
FILES = sorted((ROOT / "deploy" / "systemd").glob("*.env"))


class Unit(configparser.ConfigParser):
    """Names keep their capitals, which systemd tells apart."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def sections(unit: Path) -> configparser.ConfigParser:
    parser = Unit(interpolation=None, strict=False)
    parser.read_string(unit.read_text())
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_noetl_command(unit: Path) -> None:
    service = sections(unit)["Service"]
    program, *words = shlex.split(service["ExecStart"].replace("%i", "default"))

    assert program == "/opt/noetl/bin/noetl"
    parsed_command(words)
    assert service["User"] == "noetl"
    assert service["EnvironmentFile"].removeprefix("/etc/noetl/") in {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_is_a_setting(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]

    refuse_unknown_variables(line.partition("=")[0] for line in lines)
    assert all("=" in line for line in lines)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    name = unit.name.replace("@.", "@default.")
    # The program is installed nowhere here, so one that is there stands for it.
    (tmp_path / name).write_text(unit.read_text().replace("/opt/noetl/bin/noetl", sys.executable))

    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False
    )

    about_it = [line for line in done.stderr.splitlines() if "noetl" in line and "Failed to" not in line]
    assert about_it == []
