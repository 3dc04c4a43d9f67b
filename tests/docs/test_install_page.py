"""docs/install.md names every extra that can be installed, and no other."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import ROOT


def test_every_extra_is_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "docs" / "install.md").read_text().partition("| extra | for |")[2].partition("\n\n")[0]
    firsts = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    named = [extra for cell in firsts for extra in re.findall(r"`([\w-]+)`", cell)]

    assert sorted(named) == sorted(project["optional-dependencies"])
