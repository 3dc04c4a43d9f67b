"""Running the command line in tests: in process, with what it wrote and how it ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from noetl.cli.main import noetl
from tests import forked

FIXTURES = Path(__file__).parents[1] / "fixtures"


def call(*arguments: str, stdin: str | bytes | None = None, color: bool = False) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    done = CliRunner().invoke(noetl, list(arguments), input=stdin, color=color)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, for what only shows there."""
    return forked.run(
        [*forked.NOETL, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
