"""`noetl test`: run the tests of playbooks that are written in YAML, in memory and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from noetl.base.errors import RefusedError
from noetl.cli.queries import QueryRefused, as_json
from noetl.cli.terminal import color_option, visible


@click.command("test")
@click.argument("places", metavar="[FILE|FOLDER]…", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@color_option
@click.pass_context
def command(ctx: click.Context, places: tuple[Path, ...], output: str) -> None:
    """Run the tests in files called NAME.test.yaml; in a folder all below it, without an argument all below this one.

    \b
    noetl test
    noetl test playbooks/orders.test.yaml -o json

    A test says what a playbook is given, how its tools answer, and what to expect. Kinds that it fakes call nothing
    real, and waiting takes no time. Exits with 1 when a test fails. Tests in Python run with pytest.
    """
    from noetl.testing.yaml_tests import run_test_file

    files = list(_test_files(places or (Path(),)))
    if not files:
        raise QueryRefused("there is no file called *.test.yaml; tests in Python run with python -m pytest")
    results = []
    for file in files:
        try:
            for one in run_test_file(file):
                results.append(one)
                if output == "text":
                    _print_result(one.file, one.name, one.problems)
        except RefusedError as problem:
            raise QueryRefused(str(problem)) from None
    failed = sum(bool(one.problems) for one in results)
    if output == "json":
        click.echo(as_json(results))
    else:
        tests = f"{len(results)} test{'' if len(results) == 1 else 's'}"
        click.echo(f"{tests}: {len(results) - failed} passed" + (f", {failed} failed" if failed else ""))
    ctx.exit(1 if failed else 0)


def _test_files(places: tuple[Path, ...]) -> Iterator[Path]:
    from noetl.base.source import TEST_SUFFIX

    for place in places:
        if place.is_dir():
            found = sorted(place.rglob(f"*{TEST_SUFFIX}"))
            # Not in .venv and the like: what is installed there is not the author's.
            yield from (one for one in found if not any(part[0] == "." for part in one.relative_to(place).parts))
        else:
            yield place


def _print_result(file: str, name: str, problems: list[str]) -> None:
    sign = click.style("✗", fg="red") if problems else click.style("✓", fg="green")
    click.echo(f"{sign} {visible(file)}: {visible(name)}")
    for line in problems:
        click.echo(f"    {visible(line)}")
