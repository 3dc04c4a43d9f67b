"""What a migration has to tell, for people: notes, places that need a person, and one row for each file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from noetl.cli.terminal import visible
from noetl.language.conversion import Conversion, ConversionOutcome

if TYPE_CHECKING:
    from noetl.base.source import Source
    from noetl.language.migrating.notes import Note

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
