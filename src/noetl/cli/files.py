"""Playbook files on a command line: reading them, migrating them if requested, and checking them.

`run` and `register` print the diagnostics of `noetl check` on standard error, also with --quiet.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.base.diagnostics import TEST_SUFFIX, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from noetl.language.checking import Checked
    from noetl.net.kinds import Kinds


STDIN = "-"
# This only bounds memory: the reader refuses texts above 1 MiB with a diagnostic.
_LARGEST = 8 * 1024 * 1024
# Of a folder named where one playbook is needed: files that are looked at, and playbooks that the error names.
_MOST_FILES, _MOST_NAMED = 200, 5
# Files of a folder are searched for this first: parsing every YAML file of a project as a playbook would report errors
# in files that are not playbooks.
_PLAYBOOK = re.compile(rb"^(?:apiVersion\s*:\s*[\"']?noetl\.io/|kind\s*:\s*[\"']?Playbook\b)", re.MULTILINE)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Unreadable(click.ClickException):
    """A file that cannot be read as text, with the reason."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"error: {self.message}", err=True)


def read_source(name: str) -> Source:
    """The text of a file, or of standard input for `-`."""
    if name == STDIN:
        return Source("<stdin>", _text("<stdin>", sys.stdin.buffer.read(_LARGEST + 1)))
    try:
        with open(name, "rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise Unreadable(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise folder_error(name) from None
    except OSError as error:
        raise Unreadable(f"{name}: cannot be read ({error.strerror})") from None
    if name.endswith(TEST_SUFFIX) and not _PLAYBOOK.search(content):
        raise _file_of_tests(name)
    return Source(name, _text(name, content))


def folder_error(name: str) -> Unreadable:
    """The error for a folder in the place of one playbook; it names the playbooks in the folder."""
    folder = Path(name)
    # Two levels, and not all of them: a folder may be the home of a user.
    patterns = ("*.yaml", "*.yml", "*/*.yaml", "*/*.yml")
    files = islice((path for pattern in patterns for path in folder.glob(pattern)), _MOST_FILES)
    named = sorted(str(path) for path in files if not path.name.endswith(TEST_SUFFIX) and _looks_like_playbook(path))
    if not named:
        return Unreadable(f'{name}: this is a folder, and one playbook is needed here (*.yaml with "kind: Playbook")')
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return Unreadable(
        f"{name}: this is a folder, and one playbook is needed here: {', '.join(named[:_MOST_NAMED])}{more}"
    )


def _file_of_tests(name: str) -> Unreadable:
    return Unreadable(f"{name}: this is a file of tests, not a playbook; run it with noetl test {name}")


def _text(name: str, content: bytes) -> str:
    if len(content) > _LARGEST:
        raise Unreadable(f"{name}: larger than {_LARGEST >> 20} MiB, which is too large for a playbook")
    # Check this before NUL bytes: UTF-16 contains many, and "binary file" would be the wrong message.
    if content.startswith(_UTF16):
        raise Unreadable(f"{name}: this is UTF-16 text; save it as UTF-8")
    if b"\0" in content:
        raise Unreadable(f"{name}: this is a binary file, and a playbook is YAML text")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{name}:{line}: this is not UTF-8 text; save it as UTF-8") from None


def playbooks(names: Iterable[str]) -> Iterator[str]:
    """The named files, and the playbooks in named folders, sorted by name. Files of tests are left out, because a
    pattern such as `playbooks/*.yaml` matches them too. Unreadable if only tests were named."""
    named = list(names)
    kept = [name for name in named if not name.endswith(TEST_SUFFIX)]
    if named and not kept:
        raise _file_of_tests(named[0])
    for name in kept:
        if name != STDIN and Path(name).is_dir():
            files = [str(path) for path in _files_below(Path(name)) if _looks_like_playbook(path)]
            if not files:
                raise Unreadable(f'{name}: no playbooks in this folder (*.yaml with "kind: Playbook")')
            yield from files
        else:
            yield name


def _files_below(folder: Path) -> list[Path]:
    files = (path for suffix in ("*.yaml", "*.yml") for path in folder.rglob(suffix))
    visible = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(visible)


def _looks_like_playbook(path: Path) -> bool:
    try:
        return path.is_file() and bool(_PLAYBOOK.search(path.read_bytes()))
    except OSError:
        # Reading it later reports the error.
        return True


def accepting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--strict` and `--migrate`, for every command that accepts a playbook file."""
    migrates = click.option("--migrate", is_flag=True, help="Rewrite the text as v10 first; the file stays as it is.")
    strict = click.option("--strict", is_flag=True, help="Refuse a playbook with warnings.")
    return strict(migrates(command))


def check_or_report(source: Source, *, strict: bool = False, migrates: bool = False) -> Checked | None:
    """Check a text and print its diagnostics; returns the result, or None for a text with errors."""
    from noetl.base.settings import load_settings
    from noetl.cli.report import print_diagnostics, print_warnings
    from noetl.language.checking import check, proved
    from noetl.tools.kinds import load_kinds

    kinds = load_kinds()
    if migrates:
        migrated = _migrated_source(source, kinds)
        if migrated is None:
            return None
        source = migrated
    strict = strict or load_settings().settings.strict
    # Proofs run separately and last: they take most of the time, and `proved` skips them where they are useless.
    checked = proved(check(source, kinds=kinds, strict=strict, proofs=False))
    if checked.net is None:
        print_diagnostics(checked)
        _suggest_migration(checked, kinds)
        return None
    print_warnings(checked)
    return checked


def _migrated_source(source: Source, kinds: Kinds) -> Source | None:
    """The text migrated to v10, with a message about it; None if it cannot be migrated."""
    from noetl.cli.migrate import print_migration, print_refusal
    from noetl.language.conversion import ConversionOutcome, convert

    conversion = convert(source, kinds=kinds)
    if conversion.outcome is ConversionOutcome.UNCHANGED:
        return source
    if conversion.outcome is not ConversionOutcome.MIGRATED or conversion.after is None:
        print_refusal(conversion)
        return None
    print_migration(conversion)
    click.echo(f"{conversion.before.source.name}: read as v10 (migrated in memory; the file is unchanged)", err=True)
    return conversion.after.source


def migration_offer(source: Source, kinds: Kinds) -> str | None:
    """The changes that `noetl migrate` can make to a refused text; None if the migrated text would be refused as
    well."""
    from noetl.language.conversion import ConversionOutcome, convert
    from noetl.language.reading.playbook import Dialect

    conversion = convert(source, kinds=kinds)
    if conversion.outcome is not ConversionOutcome.MIGRATED:
        return None
    # A v10 playbook with typos needs no migration; offering one would confuse its author.
    is_v10 = conversion.before.dialect is Dialect.V10
    return "put these mistakes right, each as its help says" if is_v10 else "rewrite it as v10"


def _suggest_migration(checked: Checked, kinds: Kinds) -> None:
    """Suggest --migrate if it would help."""
    offer = migration_offer(checked.source, kinds)
    if offer is not None:
        click.echo(f"noetl migrate can {offer}; --migrate does it for this command only", err=True)
