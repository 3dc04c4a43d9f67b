"""`noetl migrate`: rewrites older dialects as v10 with the same behaviour (MIG-01…03, CLI-03)."""

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
    from noetl.base.diagnostics import Source
    from noetl.language.conversion import Conversion
    from noetl.language.migrating.notes import Note
    from noetl.net.kinds import Kinds


_COLORS = {
    ConversionOutcome.UNCHANGED: "cyan",
    ConversionOutcome.MIGRATED: "green",
    ConversionOutcome.BLOCKED: "yellow",
    ConversionOutcome.REFUSED: "red",
}


def print_migration(conversion: Conversion) -> None:
    """Print the notes of a migration, each with its place."""
    from noetl.language.migrating.notes import Note

    for note in conversion.notes:
        _print_note(conversion.before.source, note, "note")
    for note in conversion.blocked:
        _print_note(conversion.before.source, note, "not migrated")
    # A plug-in that is not installed here may have the kind, so this is no reason to refuse. `check` refuses it.
    for found in conversion.before.diagnostics:
        if found.code == "W_TOOL_KIND" and conversion.before.ok:
            _print_note(conversion.before.source, Note(found.path, found.span, found.message, found.hint), "warning")


def print_refusal(conversion: Conversion) -> None:
    """Print the reasons why there is no v10 text."""
    from noetl.cli.report import print_diagnostics

    print_migration(conversion)
    if conversion.blocked:
        count = len(conversion.blocked)
        places = "place needs" if count == 1 else "places need"
        click.echo(
            f"{visible(conversion.before.source.name)}: {count} {places} a person; --force gives the rest", err=True
        )
    elif not conversion.before.ok:
        print_diagnostics(conversion.before)
    elif conversion.after is not None:
        print_diagnostics(conversion.after)


def table(conversions: Sequence[tuple[str, Conversion]]) -> list[str]:
    """One row per file with its outcome, then the totals."""
    names = [visible(name) for name, _ in conversions]
    width = max((len(name) for name in names), default=0)
    rows = []
    for name, (_, conversion) in zip(names, conversions, strict=True):
        word = click.style(f"{conversion.outcome.value:<14}", fg=_COLORS[conversion.outcome])
        rows.append(f"{name:<{width}}  {word}  {_reason(conversion)}".rstrip())
    counts = {
        outcome: sum(conversion.outcome is outcome for _, conversion in conversions) for outcome in ConversionOutcome
    }
    totals = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    return [*rows, f"{len(conversions)} files: {totals}"]


def _reason(conversion: Conversion) -> str:
    """The first problem of a file with its place, and the number of further ones."""
    if conversion.outcome is ConversionOutcome.BLOCKED:
        reasons = [f"line {note.span.line}: {note.message}" for note in conversion.blocked]
    elif conversion.outcome is ConversionOutcome.REFUSED:
        checked = conversion.before if conversion.after is None else conversion.after
        reasons = [
            f"line {diagnostic.span.line}: {diagnostic.code}: {diagnostic.message}" for diagnostic in checked.refusals
        ]
    else:
        dialect = conversion.before.dialect
        return f"from {dialect}" if conversion.outcome is ConversionOutcome.MIGRATED and dialect is not None else ""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return visible(reasons[0]) + more if reasons else ""


def _print_note(source: Source, note: Note, word: str) -> None:
    place = f"{visible(source.name)}:{note.span.line}:{note.span.column}"
    click.echo(f"{place}: {word}: {visible(note.message)}", err=True)
    if note.way_out:
        click.echo(f"  help: {visible(note.way_out)}", err=True)


# By noetl.language.conversion.Outcome.
CODES = {"already v10": 0, "migrated": 0, "needs a person": 1, "refused": 3}


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
    """What to do with a migrated text: write it into its file, show a diff, or print it."""

    write: bool
    force: bool
    output: str
    # Of many files only the table is printed.
    text: bool


def _migrate_file(
    name: str, kinds: Kinds, printing: Printing, dialect: Dialect | None
) -> tuple[Conversion | None, int]:
    """Migrate one file; returns the conversion, None if the file is unreadable, and the exit code."""
    from noetl.language.conversion import ConversionOutcome, convert

    try:
        source = read_source(name)
    except Unreadable as error:
        error.show()
        return None, Unreadable.exit_code
    conversion = convert(source, kinds=kinds, extensions=True, dialect=dialect)
    is_migrated = conversion.outcome in (ConversionOutcome.MIGRATED, ConversionOutcome.UNCHANGED)
    (print_migration if is_migrated else print_refusal)(conversion)
    if conversion.text is not None and (is_migrated or (printing.force and conversion.blocked)):
        _deliver_text(name, source, conversion.text, printing)
    return conversion, CODES[conversion.outcome]


def _deliver_text(name: str, source: Source, text: str, printing: Printing) -> None:
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
    """Write beside the file, then rename: an interruption leaves the old text or the new one."""
    try:
        beside = target.with_name(f".{target.name}.migrated")
        beside.write_bytes(text.encode())
        beside.chmod(target.stat().st_mode & 0o7777)
        # The rename is atomic, as in `noetl fmt`.
        beside.replace(target)
    except OSError as error:
        raise Unreadable(f"{target}: cannot be written ({error.strerror})") from None
