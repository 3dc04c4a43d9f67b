"""`noetl examples`: the playbooks that ship with NoETL, to look at and to copy."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.new_files import write_new
from noetl.operations.example_files import example_files, example_texts, find_example


@click.group("examples")
def command() -> None:
    """Playbooks to copy from: each one runs.

    \b
    noetl examples list
    noetl examples copy fan_out
    """


@command.command("list")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format.")
def list_examples(output: str) -> None:
    """List the examples, with what each one shows."""
    found = example_files()
    if output == "json":
        import json

        click.echo(json.dumps([{"name": one.name, "summary": one.summary, "needs": one.needs} for one in found]))
        return
    width = max(len(one.name) for one in found)
    for one in found:
        click.echo(f"{one.name:{width}}  {one.summary}")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print the text of an example."""
    click.echo(find_example(name).file.read_text(encoding="utf-8"), nl=False)


@command.command("copy")
@click.argument("name")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--force", is_flag=True, help="Replace files that are there.")
def copy(name: str, folder: Path, force: bool) -> None:
    """Copy an example into FOLDER, with the playbooks it calls."""
    texts = {folder / file: text for file, text in example_texts(name, "playbooks")}
    write_new(texts, force=force)
    for file in texts:
        click.echo(f"wrote {file}")
