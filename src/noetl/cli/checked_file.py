"""One checked file: what `compile`, `graph` and their like begin with. Errors end the command, printed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.files import read_source

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.net.net import Net

INVALID = 3  # design.md §6


def checked_file(name: str, *, dialect: str | None = None, proofs: bool = False) -> tuple[Checked, Net]:
    """Check the file and give its net; with errors, print them and leave with INVALID."""
    from noetl.cli.report import print_diagnostics
    from noetl.language.checking import check
    from noetl.language.reading.playbook import Dialect
    from noetl.tools.kinds import load_kinds

    source = read_source(name)
    checked = check(source, kinds=load_kinds(), proofs=proofs, dialect=Dialect(dialect) if dialect else None)
    if checked.net is None:
        print_diagnostics(checked)
        raise click.exceptions.Exit(INVALID)
    return checked, checked.net
