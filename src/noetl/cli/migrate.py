"""`noetl migrate`: older dialects as v10 text, behaviour kept, and what v10 cannot say listed (MIG-01…03, CLI-03)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.cli.files import STDIN, Unreadable, playbooks, read_source
from noetl.cli.terminal import color_option, visible
from noetl.language.conversion import Conversion, ConversionOutcome
from noetl.language.reading.playbook import Dialect

if TYPE_CHECKING:
    from noetl.base.source import Source
    from noetl.language.conversion import Conversion
    from noetl.language.migrating.notes import Note
    from noetl.net.kinds import Kinds


_COLORS = {
    ConversionOutcome.UNCHANGED: "cyan",
    ConversionOutcome.MIGRATED: "green",
    ConversionOutcome.BLOCKED: "yellow",
    ConversionOutcome.REFUSED: "red",
}


def print_migration(done: Conversion) -> None:
    """The notes of a migration, each with its place."""
    for note in done.notes:
        _print_note(done.before.source, note, "note")
    for note in done.blocked:
        _print_note(done.before.source, note, "not migrated")


def print_refusal(done: Conversion) -> None:
    """Why there is no v10 text."""
    from noetl.cli.report import print_diagnostics

    print_migration(done)
    if done.blocked:
        count = len(done.blocked)
        places = "place needs" if count == 1 else "places need"
        click.echo(f"{visible(done.before.source.name)}: {count} {places} a person; --force gives the rest", err=True)
    elif not done.before.ok:
        print_diagnostics(done.before)
    elif done.after is not None:
        print_diagnostics(done.after)


def table(done: Sequence[tuple[str, Conversion]]) -> list[str]:
    """What happened to each file, one row each, then the sum."""
    names = [visible(name) for name, _ in done]
    width = max((len(name) for name in names), default=0)
    rows = []
    for name, (_, one) in zip(names, done, strict=True):
        word = click.style(f"{one.outcome.value:<14}", fg=_COLORS[one.outcome])
        rows.append(f"{name:<{width}}  {word}  {_reason(one)}".rstrip())
    counts = {outcome: sum(one.outcome is outcome for _, one in done) for outcome in ConversionOutcome}
    told = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    return [*rows, f"{len(done)} files: {told}"]


def _reason(done: Conversion) -> str:
    """The first thing to know about a file, with its place, and how many more there are."""
    if done.outcome is ConversionOutcome.BLOCKED:
        found = [f"line {note.span.line}: {note.message}" for note in done.blocked]
    elif done.outcome is ConversionOutcome.REFUSED:
        checked = done.before if done.after is None else done.after
        found = [f"line {one.span.line}: {one.code}: {one.message}" for one in checked.refusals]
    else:
        dialect = done.before.dialect
        return f"from {dialect}" if done.outcome is ConversionOutcome.MIGRATED and dialect is not None else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return visible(found[0]) + more if found else ""


def _print_note(source: Source, note: Note, word: str) -> None:
    place = f"{visible(source.name)}:{note.span.line}:{note.span.column}"
    click.echo(f"{place}: {word}: {visible(note.message)}", err=True)
    if note.way_out:
        click.echo(f"  help: {visible(note.way_out)}", err=True)


CODES = {"already v10": 0, "migrated": 0, "needs a person": 1, "refused": 3}  # by noetl.language.conversion.Outcome


@click.command("migrate")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--write", is_flag=True, help="Write the v10 text into the files.")
@click.option("--force", is_flag=True, help="Write the text even if a part of it could not be migrated.")
@click.option("-o", "--output", type=click.Choice(["text", "diff"]), default="text", help="Output format.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read every file as this dialect."
)
@color_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], write: bool, force: bool, output: str, dialect: str | None
) -> None:
    """Rewrite playbooks of older dialects as v10, with the same behaviour.

    The text goes to standard output, or into the files with --write; remarks go to standard error. For a folder or
    several files, a table lists the outcome of each. What v10 cannot express is listed with its place and an
    alternative; such a file is written only with --force, and the exit code is 1. It is 3 if a file is refused.
    """
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
        # Whole or not at all, as with `noetl fmt`.
        beside.replace(target)
    except OSError as error:
        raise Unreadable(f"{target}: cannot be written ({error.strerror})") from None
