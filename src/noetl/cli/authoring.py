"""`noetl check`, `fmt` and `test`: commands for authors on their files. `check` reports all mistakes of all files at
once, and proofs about the others (VAL-19, CLI-03).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.base.diagnostics import Source
from noetl.base.errors import RefusedError
from noetl.cli.files import STDIN, Unreadable, migration_offer, playbooks, read_source
from noetl.cli.queries import QueryRefused
from noetl.cli.terminal import as_json, color_option, visible

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.language.formatting.formatter import FormatError

# As linters do (design.md §6).
FAILED = 1


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
def check_command(
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
        # Trying a migration checks each text again, so it is done only for people, not for machine formats.
        if output == "text" and not all(result.ok for result in checked):
            _suggest_migration(checked)
    # Before FAILED: a file that was not checked is worse than one with errors.
    if unreadable:
        ctx.exit(Unreadable.exit_code)
    if not all(result.ok for result in checked):
        ctx.exit(FAILED)


def _suggest_migration(checked: list[Checked]) -> None:
    """Name the refused files that `noetl migrate` can rewrite."""
    from noetl.tools.kinds import load_kinds

    refused = [result.source for result in checked if not result.ok and result.source.name != "<stdin>"]
    for source in refused:
        offer = migration_offer(source, load_kinds())
        if offer is not None:
            click.echo(f"noetl migrate {visible(source.name)} can {offer}", err=True)


def _sources(files: tuple[str, ...]) -> tuple[list[Source], int]:
    """The readable texts, each file once, and the number of unreadable files, which are reported at once."""
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

    kinds, forced = load_kinds(), Dialect(dialect) if dialect else None
    return [check(source, kinds=kinds, strict=strict, extensions=extensions, dialect=forced) for source in sources]


# `noetl fmt`: one layout for every playbook. Comments and meaning stay; a file with syntax errors is not changed.


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; show what would change.")
@color_option
@click.pass_context
def fmt_command(ctx: click.Context, files: tuple[str, ...], only_check: bool, show_diff: bool) -> None:
    """Format playbooks in place; - formats standard input to standard output.

    Keys come in one order, two spaces indent, comments stay. Nothing of what a file says is changed.
    """
    from noetl.language.formatting.formatter import FormatError, format_text

    code, changed = 0, 0
    for name in dict.fromkeys(playbooks(files)):
        try:
            source = read_source(name)
            formatted = format_text(source)
        except Unreadable as error:
            error.show()
            code = Unreadable.exit_code
            continue
        except FormatError as error:
            _explain(source, error)
            code = code or FAILED
            continue
        changed += formatted != source.text
        if show_diff:
            click.echo("".join(_diff(source, formatted)), nl=False)
        elif not only_check:
            _write(name, source, formatted)
        if formatted != source.text and name != STDIN:
            verb = "would be reformatted" if only_check or show_diff else "reformatted"
            click.echo(f"{visible(name)}: {verb}", err=True)
    ctx.exit(code or (FAILED if only_check and changed else 0))


def _explain(source: Source, error: FormatError) -> None:
    """Print the mistakes of a file that cannot be parsed, as `check` prints them, or else the reason in one line."""
    if not error.findings:
        click.echo(f"error: {visible(str(error))}", err=True)
        return
    from noetl.cli.report import print_diagnostics
    from noetl.language.checking import Checked

    print_diagnostics(
        Checked(
            source=source,
            dialect=None,
            playbook=None,
            net=None,
            debug={},
            diagnostics=error.findings,
            certificate=None,
        )
    )


def _diff(source: Source, formatted: str) -> Iterator[str]:
    before, after = source.text.splitlines(keepends=True), formatted.splitlines(keepends=True)
    colors = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff(before, after, source.name, f"{source.name} (formatted)"):
        text = line.rstrip("\r\n")
        yield click.style(visible(text), fg=colors.get(text[:1])) + "\n"


def _write(name: str, source: Source, formatted: str) -> None:
    """Replace the file atomically: an interruption leaves the old or the new text, never a part of one."""
    if name == STDIN:
        click.echo(formatted, nl=False)
        return
    if formatted == source.text:
        return
    # Resolve links: replace the target, not the link.
    target = Path(name).resolve()
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(formatted.encode())
            # A temporary file is readable by its owner only; copy the permissions of the original.
            Path(temporary).chmod(target.stat().st_mode & 0o7777)
            # Write beside it, then rename: a full disk or a killed command leaves the old file intact.
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unreadable(f"{name}: cannot be written ({error.strerror})") from None


# `noetl test`: run the tests of playbooks that are written in YAML, in memory and in virtual time.


@click.command("test")
@click.argument("places", metavar="[FILE|FOLDER]…", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@color_option
@click.pass_context
def test_command(ctx: click.Context, places: tuple[Path, ...], output: str) -> None:
    """Run the tests in files called NAME.test.yaml; in a folder all below it, without an argument all below this one.

    \b
    noetl test
    noetl test playbooks/orders.test.yaml -o json

    A test defines the inputs of a playbook, the answers of its tools, and the expected result. Faked kinds call nothing
    real, and waiting takes no time. Exits with 1 when a test fails. Tests in Python run with pytest.
    """
    from noetl.testing.yaml_tests import run_test_file

    files = list(_test_files(places or (Path(),)))
    if not files:
        raise QueryRefused("there is no file called *.test.yaml; tests in Python run with python -m pytest")
    results = []
    for file in files:
        try:
            for result in run_test_file(file):
                results.append(result)
                if output == "text":
                    _print_result(result.file, result.name, result.problems)
        except RefusedError as problem:
            raise QueryRefused(str(problem)) from None
    failed = sum(bool(result.problems) for result in results)
    if output == "json":
        click.echo(as_json(results))
    else:
        tests = f"{len(results)} test{'' if len(results) == 1 else 's'}"
        click.echo(f"{tests}: {len(results) - failed} passed" + (f", {failed} failed" if failed else ""))
    ctx.exit(1 if failed else 0)


def _test_files(places: tuple[Path, ...]) -> Iterator[Path]:
    from noetl.base.diagnostics import TEST_SUFFIX

    for place in places:
        if place.is_dir():
            files = sorted(place.rglob(f"*{TEST_SUFFIX}"))
            # Skip hidden folders such as .venv: files there are not the author's.
            yield from (file for file in files if not any(part[0] == "." for part in file.relative_to(place).parts))
        else:
            yield place


def _print_result(file: str, name: str, problems: list[str]) -> None:
    sign = click.style("✗", fg="red") if problems else click.style("✓", fg="green")
    click.echo(f"{sign} {visible(file)}: {visible(name)}")
    for line in problems:
        click.echo(f"    {visible(line)}")
