"""`noetl migrate`: older dialects as v10 text, behaviour kept, and what v10 cannot say listed (MIG-01…03, CLI-03)."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.cli.files import STDIN, Unreadable, playbooks, read_source
from noetl.cli.terminal import color_option, visible
from noetl.language.reading.playbook import Dialect

if TYPE_CHECKING:
    from noetl.base.source import Source
    from noetl.language.conversion import Conversion
    from noetl.net.kinds import Kinds

CODES = {"already v10": 0, "migrated": 0, "needs a person": 1, "refused": 3}  # by noetl.language.conversion.Outcome


@click.command("migrate")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--write", is_flag=True, help="Write the v10 text into the files.")
@click.option("--force", is_flag=True, help="Give the text even where a part could not be migrated.")
@click.option("-o", "--output", type=click.Choice(["text", "diff"]), default="text", help="Form of what is printed.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read every file as this dialect."
)
@color_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], write: bool, force: bool, output: str, dialect: str | None
) -> None:
    """Rewrite playbooks of older dialects as v10, with the same behaviour.

    The text goes to standard output, or into the files with --write; remarks go to standard error. Of a folder, or of
    several files, a table tells what happened to each. What v10 cannot say is listed with its place and the
    alternative; then nothing is written, unless forced, and the exit code is 1. It is 3 where a file is refused.
    """
    from noetl.cli.migration_report import table
    from noetl.tools.kinds import load_kinds

    kinds = load_kinds()
    names = list(dict.fromkeys(playbooks(files)))
    listed = len(names) > 1 or any(name != STDIN and Path(name).is_dir() for name in files)
    printing = Printing(write=write, force=force, output=output, text=not listed)
    done, codes = [], []
    for name in names:
        converted, code = _migrate_file(name, kinds, printing, Dialect(dialect) if dialect else None)
        codes.append(code)
        done += [(name, converted)] if converted is not None else []
    if listed:
        for row in table(done):
            click.echo(row, err=output == "diff")
    ctx.exit(max(codes, default=0))


class Printing(msgspec.Struct, frozen=True):
    """What becomes of a migrated text: written into its file, shown as a difference, printed."""

    write: bool
    force: bool
    output: str
    text: bool  # of many files only the table is printed


def _migrate_file(
    name: str, kinds: Kinds, printing: Printing, dialect: Dialect | None
) -> tuple[Conversion | None, int]:
    """What happened to one file, and the exit code it asks for."""
    from noetl.cli.migration_report import print_migration, print_refusal
    from noetl.language.conversion import ConversionOutcome, convert

    try:
        source = read_source(name)
    except Unreadable as error:
        error.show()
        return None, Unreadable.exit_code
    done = convert(source, kinds=kinds, extensions=True, dialect=dialect)
    is_done = done.outcome in (ConversionOutcome.MIGRATED, ConversionOutcome.UNCHANGED)
    (print_migration if is_done else print_refusal)(done)
    if done.text is not None and (is_done or (printing.force and done.blocked)):
        _give(name, source, done.text, printing)
    return done, CODES[done.outcome]


def _give(name: str, source: Source, text: str, printing: Printing) -> None:
    if printing.output == "diff":
        old, new = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
        click.echo("".join(unified_diff(old, new, visible(name), visible(name))), nl=False)
    if printing.write and name != STDIN:
        if text != source.text:
            _replace(Path(name).resolve(), text)
            click.echo(f"{visible(name)}: migrated to v10", err=True)
    elif printing.output == "text" and printing.text:
        click.echo(text, nl=False)


def _replace(target: Path, text: str) -> None:
    """Write beside the file, then move into its place: an interruption leaves the old text or the new one."""
    try:
        beside = target.with_name(f".{target.name}.migrated")
        beside.write_bytes(text.encode())
        beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        raise Unreadable(f"{target}: cannot be written ({error.strerror})") from None
