"""Commands that pages show and no test runs, since they need a server, a secret or a machine: each can be read."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from tests.deploy.commands import parsed_command
from tests.docs.pages import FENCE, ROOT

# What the generated pages show has tests of its own; the specification also names commands that were considered.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "examples").rglob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "cli.md" and "spec" not in page.parts),
]
NOT_RUN = ("sh", "text", "shell-session")
COMMAND = re.compile(r"(?:^|[|&;] *|\$ |bin/)noetl ([^|&;<>]*)")


def written() -> list[object]:
    found: list[object] = []
    for page in PAGES:
        for language, _, text in FENCE.findall(page.read_text()):
            if language not in NOT_RUN:
                continue
            for line in text.replace("\\\n", " ").splitlines():
                found += [
                    pytest.param(command.strip(), id=f"{page.relative_to(ROOT)}: {command.strip()}")
                    for command in COMMAND.findall(re.sub(r" #.*", "", line))
                    if "…" not in command
                ]
    return found


@pytest.mark.req("DOC-14")
@pytest.mark.parametrize("command", written())
def test_a_documented_command_is_valid(command: str) -> None:
    try:
        parsed_command(shlex.split(command))
    except click.exceptions.Exit:
        pass  # --version and --help
    except click.BadParameter as problem:
        if "does not exist" not in problem.message:  # a file of the reader may be missing here
            raise


def test_documented_commands_are_found() -> None:
    assert len(written()) > 25
