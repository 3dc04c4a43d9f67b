"""The text that `run` and `register` accept: checked, migrated first where that is asked for, its warnings shown.

Whatever `noetl check` would say about the text is said here too, on standard error, whether the run is quiet or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from noetl.base.source import Source
    from noetl.language.checking import Checked
    from noetl.net.kinds import Kinds


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
    from noetl.cli.migration_report import print_migration, print_refusal
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


def _offer_migration(checked: Checked, kinds: Kinds) -> None:
    """Say that --migrate would do, where it would."""
    from noetl.language.conversion import ConversionOutcome, convert

    if convert(checked.source, kinds=kinds).outcome is ConversionOutcome.MIGRATED:
        click.echo("noetl migrate can rewrite this playbook as v10; --migrate does it for this command only", err=True)
