"""`noetl init`, `examples`, `register` and `catalog`: new projects, the examples that ship with NoETL, and registered
playbooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.base.errors import RefusedError
from noetl.cli.completion import PLAYBOOK
from noetl.cli.connection import ask, place_options, typed_place
from noetl.cli.files import accepting_options, check_or_report, playbooks, read_source
from noetl.cli.queries import INVALID
from noetl.cli.terminal import color_option, columns, list_output, print_list, visible
from noetl.operations.example_files import PLUGIN, copy_plugin, example_files, example_texts, find_example

if TYPE_CHECKING:
    from noetl.cli.connection import Operations
    from noetl.operations.api_shapes import PlaybookInfo, VersionView


def write_new(texts: Mapping[Path, str], *, force: bool = False) -> None:
    """Write each text to its file. RefusedError names every file that exists already."""
    existing = [str(file) for file in texts if file.exists()]
    if existing and not force:
        raise RefusedError(f"nothing was written, as these files exist: {', '.join(existing)}; --force replaces them")
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@click.group("examples")
def examples_command() -> None:
    """Playbooks to copy from: each one runs.

    \b
    noetl examples list
    noetl examples copy fan_out
    """


@examples_command.command("list")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def list_examples(output: str) -> None:
    """List the examples, with what each one shows."""
    examples = example_files()
    if output == "json":
        import json

        click.echo(
            json.dumps(
                [{"name": example.name, "summary": example.summary, "needs": example.needs} for example in examples]
            )
        )
        return
    width = max(len(example.name) for example in examples)
    for example in examples:
        click.echo(f"{example.name:{width}}  {example.summary}")


@examples_command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print the text of an example."""
    click.echo(find_example(name).file.read_text(encoding="utf-8"), nl=False)


@examples_command.command("copy")
@click.argument("name")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--force", is_flag=True, help="Replace existing files.")
def copy(name: str, folder: Path, force: bool) -> None:
    """Copy an example into FOLDER, with its tests and the playbooks it calls."""
    texts = {folder / file: text for file, text in example_texts(name, "playbooks")}
    write_new(texts, force=force)
    for file in texts:
        click.echo(f"wrote {file}")


SETTINGS = """# Settings of this project; `noetl config show --origin` tells which hold and where they come from.
db = "noetl.db"
"""
IGNORED = """noetl.db*
*.duckdb
data/
*.tar.gz
*.token
master.key
.env
.venv/
__pycache__/
.pytest_cache/
"""
PIPELINE = """# Checks and tests the playbooks on every push. requirements.txt names the NoETL to install.
name: playbooks
on: [push, pull_request]
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: { python-version: "3.11" }
      - run: pip install -r requirements.txt
      - run: noetl check playbooks --strict -o github
      - run: noetl test
"""
REQUIREMENTS = """# NoETL is not on PyPI: name your wheel here, for example ./wheels/noetl_engine-0.2.0-py3-none-any.whl
"""


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--template", default="hello", metavar="NAME", help="An example (`noetl examples list`), or plugin.")
@click.option("--force", is_flag=True, help="Replace existing files.")
def init_command(folder: Path, template: str, force: bool) -> None:
    """Make a project: a playbook that runs, its tests, settings, a schema for editors, a check for CI.

    \b
    noetl init shop
    noetl init shop --template pages_to_duckdb
    noetl init my-tool --template plugin
    """
    if template == PLUGIN:
        for file in copy_plugin(folder):
            click.echo(f"wrote {file}")
        return
    texts = project_files(folder, template)
    is_empty = not folder.is_dir() or not any(folder.iterdir())
    write_new(texts, force=force)
    if not is_empty:
        click.echo(f"{'This folder' if folder == Path() else folder} was not empty. Its other files are unchanged.")
    for file in texts:
        click.echo(f"wrote {file}")
    where = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"\nTry it: {where}noetl run playbooks/{template}.yaml")
    click.echo(f"Test it: {where}noetl test")


def project_files(folder: Path, template: str) -> dict[Path, str]:
    """Every file of a new project, with its text."""
    from noetl.language.grammar.root import playbook_schema
    from noetl.tools.kinds import load_kinds

    name = re.sub(r"[^a-z0-9_]+", "_", folder.resolve().name.lower()).strip("_") or "project"
    # An editor resolves the path of the schema from the folder of the playbook.
    texts = {
        f"playbooks/{file}": text.replace("$schema=noetl.schema.json", "$schema=../noetl.schema.json")
        for file, text in example_texts(template, name)
    }
    texts |= {
        "noetl.toml": SETTINGS,
        "noetl.schema.json": json.dumps(playbook_schema(load_kinds()), indent=2, ensure_ascii=False) + "\n",
        ".vscode/settings.json": json.dumps(
            {"yaml.schemas": {"./noetl.schema.json": ["playbooks/*.yaml", "!playbooks/*.test.yaml"]}}, indent=2
        )
        + "\n",
        ".gitignore": IGNORED,
        "requirements.txt": REQUIREMENTS,
        ".github/workflows/playbooks.yml": PIPELINE,
    }
    return {folder / file: text for file, text in texts.items()}


# `noetl register` and `catalog`: playbooks in the catalogue, where others find them by their path (CLI-02, SRV-10).

_version = click.option("--version", metavar="VERSION", help="Its number or its label; the newest without.")


@click.group("catalog")
@color_option
def catalog_command() -> None:
    """Show registered playbooks. `noetl register` puts them there."""


@catalog_command.command("list")
@list_output
@place_options
def list_command(output: str, db: str | None) -> None:
    """List playbooks, each with its newest version."""
    _print(ask(db, lambda operations: operations.playbooks(limit=1000)), output)


@catalog_command.command("versions")
@click.argument("path", type=PLAYBOOK)
@list_output
@place_options
def versions_command(path: str, output: str, db: str | None) -> None:
    """List the versions of a playbook, the newest first."""
    _print(ask(db, lambda operations: operations.versions(path)), output)


@catalog_command.command("show")
@click.argument("path", type=PLAYBOOK)
@_version
@place_options
def show_command(path: str, version: str | None, db: str | None) -> None:
    """Print the text of a playbook as it was registered."""
    click.echo(ask(db, lambda operations: operations.source(path, version)), nl=False)


def _print(rows: list[VersionView], output: str) -> None:
    fields = [_version_row(row) for row in rows]
    print_list(fields, output, key="path", table=lambda: _table(fields))


def _table(versions: list[dict[str, Any]]) -> list[str]:
    rows = [
        (version["path"], version["version"], version["label"] or "-", version["registered_at"][:19] + "Z")
        for version in versions
    ]
    return columns(("PATH", "VERSION", "LABEL", "REGISTERED"), rows, nothing="no playbooks yet: noetl register FILE")


def _version_row(row: VersionView) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("path", "version", "label", "net_hash", "registered_at")}


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@accepting_options
@place_options
@color_option
@click.pass_context
def register_command(ctx: click.Context, files: tuple[str, ...], strict: bool, migrate: bool, db: str | None) -> None:
    """Check playbooks and put them into the catalogue, each as a new version unless it is there already.

    Of a folder, all playbooks below it are registered (*.yaml with "kind: Playbook").

    If one of them has errors, nothing is registered and the exit code is 3. Warnings go to standard error.
    """
    texts = [check_or_report(read_source(file), strict=strict, migrates=migrate) for file in playbooks(files)]
    checked = [result for result in texts if result is not None]
    # All are checked before the first is registered: a folder of playbooks that call each other comes in whole or not
    # at all.
    if len(checked) < len(texts):
        ctx.exit(INVALID)

    async def register_all(operations: Operations) -> list[PlaybookInfo]:
        return [await operations.register(result) for result in checked]

    for info in ask(db, register_all, makes_store=True):
        path = visible(info.path)
        click.echo(f"{path} version {info.version}")
        for name in map(visible, info.absent_credentials):
            message = f'warning: a notice of {path} names the credential "{name}", which is not stored yet'
            click.echo(f"{message}: noetl credential set {name}{typed_place()}", err=True)
