"""`noetl check`: every mistake in every file at once, and what can be proved about the rest (VAL-19, CLI-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.base.source import Source
from noetl.cli.files import Unreadable, migration_offer, playbooks, read_source
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.language.checking import Checked

FAILED = 1  # as linters do (design.md §6)


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "github", "sarif"]), default="text", help="Report format."
)
@click.option("--strict", is_flag=True, help="Refuse warnings too; unknown keys are errors under noetl.io/v2 as well.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read every file as this dialect."
)
@click.option("--allow-extensions", is_flag=True, help="Accept tool kinds that no installed plug-in provides.")
@color_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], output: str, strict: bool, dialect: str | None, allow_extensions: bool
) -> None:
    """Check playbooks: all mistakes at once, and proofs about what the net can do.

    FILE may be a folder, whose playbooks are all checked, or - for standard input. Exits with 1 when there are errors,
    and with --strict when there are warnings.
    """
    from noetl.cli.report import report

    sources, unreadable = _sources(files)
    checked = _checked(sources, strict=strict, dialect=dialect, extensions=allow_extensions)
    if checked:
        click.echo(report(checked, output, paint=click.style))
        if output == "text" and not all(one.ok for one in checked):
            _offer_migration(checked)
    if unreadable:
        ctx.exit(Unreadable.exit_code)
    if not all(one.ok for one in checked):
        ctx.exit(FAILED)


def _offer_migration(checked: list[Checked]) -> None:
    """Name the refused files that `noetl migrate` can rewrite."""
    from noetl.tools.kinds import load_kinds

    refused = [one.source for one in checked if not one.ok and one.source.name != "<stdin>"]
    for source in refused:
        offer = migration_offer(source, load_kinds())
        if offer is not None:
            click.echo(f"noetl migrate {visible(source.name)} can {offer}", err=True)


def _sources(files: tuple[str, ...]) -> tuple[list[Source], int]:
    """The texts that can be read, each file once, and how many cannot; those are named at once."""
    sources, unreadable = [], 0
    for name in dict.fromkeys(playbooks(files)):
        try:
            sources.append(read_source(name))
        except Unreadable as error:
            error.show()
            unreadable += 1
    return sources, unreadable


def _checked(sources: list[Source], *, strict: bool, dialect: str | None, extensions: bool) -> list[Checked]:
    from noetl.language.checking import check
    from noetl.language.reading.playbook import Dialect
    from noetl.tools.kinds import load_kinds

    kinds, asked = load_kinds(), Dialect(dialect) if dialect else None
    return [check(source, kinds=kinds, strict=strict, extensions=extensions, dialect=asked) for source in sources]
