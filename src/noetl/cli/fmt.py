"""`noetl fmt`: one layout for every playbook, comments and meaning kept; a file that does not read stays untouched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.files import STDIN, Unreadable, playbooks, read_source
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.base.source import Source
    from noetl.language.formatting.formatter import FormatError

FAILED = 1


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; show what would change.")
@color_option
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], only_check: bool, show_diff: bool) -> None:
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
            told = "would be reformatted" if only_check or show_diff else "reformatted"
            click.echo(f"{visible(name)}: {told}", err=True)
    ctx.exit(code or (FAILED if only_check and changed else 0))


def _explain(source: Source, error: FormatError) -> None:
    """The mistakes of a file that does not read, as `check` would show them, else the reason in a line."""
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
    """Replace the file in one move, so that an interruption leaves the old or the new text, never half of one."""
    if name == STDIN:
        click.echo(formatted, nl=False)
        return
    if formatted == source.text:
        return
    target = Path(name).resolve()
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(formatted.encode())
            Path(temporary).chmod(target.stat().st_mode & 0o7777)
            # Written beside it and moved: a full disk or a killed command leaves the old file whole.
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unreadable(f"{name}: cannot be written ({error.strerror})") from None
