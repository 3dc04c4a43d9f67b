"""`noetl config`: the settings that hold, and where each of them was found."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli.output_formats import columns
from noetl.cli.queries import as_json, refusals
from noetl.cli.terminal import color_option


@click.group("config")
@color_option
def command() -> None:
    """Settings: a flag comes before a NOETL_… variable, that before .env, that before noetl.toml or [tool.noetl] of
    pyproject.toml, that before your own config.toml, that before the default."""


@command.command("show")
@click.option("--origin", is_flag=True, help="And where each value was found.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
def show_command(origin: bool, output: str) -> None:
    """Show every setting. What is secret is not shown."""
    import msgspec

    from noetl.base.settings import SECRETS, load_settings

    with refusals():
        loaded = load_settings()
    values: dict[str, Any] = msgspec.to_builtins(loaded.settings)
    shown = {name: "***" if name in SECRETS and value is not None else value for name, value in values.items()}
    if output == "json":
        told = {name: {"value": shown[name], "origin": loaded.origins[name]} for name in shown} if origin else shown
        click.echo(as_json(told))
        return
    headings = ("SETTING", "VALUE", *(["ORIGIN"] if origin else []))
    rows = [(name, _text(value), *([loaded.origins[name]] if origin else [])) for name, value in shown.items()]
    click.echo("\n".join(columns(headings, rows)))


@command.command("path")
def path_command() -> None:
    """Print where your own settings are read from."""
    from noetl.base.settings import config_folder

    click.echo(config_folder() / "config.toml")


def _text(value: Any) -> str:
    match value:
        case None | []:
            return "-"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
