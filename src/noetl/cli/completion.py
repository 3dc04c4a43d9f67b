"""`noetl completion`: the script that teaches a shell the commands and their options."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash   eval "$(noetl completion bash)" in ~/.bashrc
    zsh    eval "$(noetl completion zsh)" in ~/.zshrc
    fish   noetl completion fish > ~/.config/fish/completions/noetl.fish
    """
    from click.shell_completion import get_completion_class

    from noetl.cli.main import noetl

    completion = get_completion_class(shell)
    assert completion is not None  # the choices above are click's own
    click.echo(completion(noetl, {}, "noetl", "_NOETL_COMPLETE").source())
