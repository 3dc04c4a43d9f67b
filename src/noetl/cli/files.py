"""Playbooks named on a command line: read as sources, migrated where that is asked for, and checked.

`run` and `register` say what `noetl check` would say about a text, on standard error, whether the run is quiet or not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.base.source import TEST_SUFFIX, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from noetl.language.checking import Checked
    from noetl.net.kinds import Kinds


STDIN = "-"
_LARGEST = 8 * 1024 * 1024  # the reader refuses far less (1 MiB), with a diagnostic; this only keeps memory safe
# Files in a folder are looked at as bytes first: reading every YAML file of a project as a playbook would report errors
# in files that are none.
_PLAYBOOK = re.compile(rb"^(?:apiVersion\s*:\s*[\"']?noetl\.io/|kind\s*:\s*[\"']?Playbook\b)", re.MULTILINE)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Unreadable(click.ClickException):
    """A file that cannot be read as text; says which and why."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"error: {self.message}", err=True)


def read_source(name: str) -> Source:
    """The text of a file, or of standard input for `-`."""
    if name == STDIN:
        return Source("<stdin>", _text("<stdin>", sys.stdin.buffer.read(_LARGEST + 1)))
    try:
        with open(name, "rb") as file:
            return Source(name, _text(name, file.read(_LARGEST + 1)))
    except FileNotFoundError:
        raise Unreadable(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise Unreadable(f"{name}: this is a folder, and one file is needed here") from None
    except OSError as error:
        raise Unreadable(f"{name}: cannot be read ({error.strerror})") from None


def _text(name: str, content: bytes) -> str:
    if len(content) > _LARGEST:
        raise Unreadable(f"{name}: larger than {_LARGEST >> 20} MiB, which is no playbook")
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
    """Each file named, and for a folder the playbooks below it, in the order of their names. Tests lie beside their
    playbooks, so `playbooks/*.yaml` names them too: they are left out. Unreadable where nothing else was named."""
    named = list(names)
    wanted = [name for name in named if not name.endswith(TEST_SUFFIX)]
    if named and not wanted:
        raise Unreadable(f"{named[0]}: this is a file of tests, and no playbook; noetl test {named[0]} runs it")
    for name in wanted:
        if name != STDIN and Path(name).is_dir():
            found = [str(path) for path in _below(Path(name)) if _looks_like_playbook(path)]
            if not found:
                raise Unreadable(f'{name}: no playbooks in this folder (*.yaml with "kind: Playbook")')
            yield from found
        else:
            yield name


def _below(folder: Path) -> list[Path]:
    files = (path for suffix in ("*.yaml", "*.yml") for path in folder.rglob(suffix))
    visible = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(visible)


def _looks_like_playbook(path: Path) -> bool:
    try:
        return path.is_file() and bool(_PLAYBOOK.search(path.read_bytes()))
    except OSError:
        return True  # reading it again will say what is wrong


def accepting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--strict` and `--migrate`, of every command that takes the text of a playbook."""
    migrates = click.option("--migrate", is_flag=True, help="Rewrite the text as v10 first; the file stays as it is.")
    strict = click.option("--strict", is_flag=True, help="Refuse a playbook with warnings.")
    return strict(migrates(command))


def accepted(source: Source, *, strict: bool = False, migrates: bool = False) -> Checked | None:
    """The checked text with its net; None when it is refused, which is told with every reason."""
    from noetl.base.settings import load_settings
    from noetl.cli.report import print_diagnostics, print_warnings
    from noetl.language.checking import check, proved
    from noetl.tools.kinds import load_kinds

    kinds = load_kinds()
    if migrates:
        migrated = _migrated(source, kinds)
        if migrated is None:
            return None
        source = migrated
    strict = strict or load_settings().settings.strict
    checked = proved(check(source, kinds=kinds, strict=strict, proofs=False))
    if checked.net is None:
        print_diagnostics(checked)
        _offer_migration(checked, kinds)
        return None
    print_warnings(checked)
    return checked


def _migrated(source: Source, kinds: Kinds) -> Source | None:
    """The text as v10, with a word about it; None where it cannot be had."""
    from noetl.cli.migrate import print_migration, print_refusal
    from noetl.language.conversion import ConversionOutcome, convert

    done = convert(source, kinds=kinds)
    if done.outcome is ConversionOutcome.UNCHANGED:
        return source
    if done.outcome is not ConversionOutcome.MIGRATED or done.after is None:
        print_refusal(done)
        return None
    print_migration(done)
    click.echo(f"{done.before.source.name}: read as v10 (migrated in memory; the file is unchanged)", err=True)
    return done.after.source


def migration_offer(source: Source, kinds: Kinds) -> str | None:
    """What `noetl migrate` can do about a text that is refused; None where it would be refused as well."""
    from noetl.language.conversion import ConversionOutcome, convert
    from noetl.language.reading.playbook import Dialect

    done = convert(source, kinds=kinds)
    if done.outcome is not ConversionOutcome.MIGRATED:
        return None
    # Who has mistyped a word in a v10 playbook has nothing to migrate, and would wonder about it.
    is_v10 = done.before.dialect is Dialect.V10
    return "put these mistakes right, each as its help says" if is_v10 else "rewrite it as v10"


def _offer_migration(checked: Checked, kinds: Kinds) -> None:
    """Say that --migrate would do, where it would."""
    offer = migration_offer(checked.source, kinds)
    if offer is not None:
        click.echo(f"noetl migrate can {offer}; --migrate does it for this command only", err=True)
