"""`noetl migrate`: older dialects as v10 text, behaviour kept, and what v10 cannot say listed (MIG-01…03, CLI-03)."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import STDIN, Unreadable, playbooks, read_source
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.migration.migrating import Migration
    from noetl.migration.notes import Note
    from noetl.net.kinds import Kinds
    from noetl.source import Source

BLOCKED, INVALID = 1, 3


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

    The text goes to standard output, or into the files with --write; remarks go to standard error. What v10 cannot
    say is listed with its place and the alternative; then nothing is written, unless forced, and the exit code is 1.
    """
    from noetl.tools.kinds import load_kinds

    kinds = load_kinds()
    names = list(dict.fromkeys(playbooks(files)))
    codes = [_migrate_file(name, kinds, write=write, force=force, output=output, dialect=dialect) for name in names]
    ctx.exit(max(codes, default=0))


def _migrate_file(name: str, kinds: Kinds, *, write: bool, force: bool, output: str, dialect: str | None) -> int:
    from noetl.checking import check
    from noetl.cli.report import print_diagnostics
    from noetl.document.playbook import Dialect
    from noetl.migration.migrating import migrate

    try:
        source = read_source(name)
    except Unreadable as error:
        error.show()
        return Unreadable.exit_code
    named = Dialect(dialect) if dialect else None
    checked = check(source, kinds=kinds, extensions=True, proofs=False, dialect=named)
    if checked.playbook is None or not checked.ok:
        print_diagnostics(checked)
        return INVALID
    migration = migrate(source, checked.playbook)
    _remark(source, migration)
    if migration.blocked and not force:
        return BLOCKED
    _give(name, source, migration.text, write=write, output=output)
    return BLOCKED if migration.blocked else 0


def _give(name: str, source: Source, text: str, *, write: bool, output: str) -> None:
    if output == "diff":
        old, new = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
        click.echo("".join(unified_diff(old, new, visible(name), visible(name))), nl=False)
    if write and name != STDIN:
        if text != source.text:
            _replace(Path(name).resolve(), text)
            click.echo(f"{visible(name)}: migrated to v10", err=True)
    elif output == "text":
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


def _remark(source: Source, migration: Migration) -> None:
    for note in migration.notes:
        _show(source, note, "note")
    for note in migration.blocked:
        _show(source, note, "not migrated")
    if migration.blocked:
        count = len(migration.blocked)
        places = "place needs" if count == 1 else "places need"
        message = f"{visible(source.name)}: {count} {places} a person; --force gives the rest"
        click.echo(message, err=True)


def _show(source: Source, note: Note, word: str) -> None:
    place = f"{visible(source.name)}:{note.span.line}:{note.span.column}"
    click.echo(f"{place}: {word}: {visible(note.message)}", err=True)
    if note.way_out:
        click.echo(f"  help: {visible(note.way_out)}", err=True)
