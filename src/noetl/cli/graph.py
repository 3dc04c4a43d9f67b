"""`noetl graph`: a playbook as text for a terminal, as a picture (SVG), or for Mermaid and Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.checked_file import checked_file
from noetl.cli.terminal import color_option

if TYPE_CHECKING:
    from noetl.language.drawing.drawing import Drawing


@click.command("graph")
@click.argument("file")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "mermaid", "dot", "svg"]),
    default="text",
    help="Form of the drawing.",
)
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@color_option
def command(file: str, output: str, dialect: str | None) -> None:
    """Draw the net of FILE (or - for standard input): steps, their tasks, and the ways between them."""
    from noetl.language.drawing.drawing import draw

    _, net = checked_file(file, dialect=dialect)
    click.echo(_written(draw(net), output), nl=False)


def _written(drawing: Drawing, output: str) -> str:
    match output:
        case "mermaid":
            from noetl.language.drawing.mermaid import mermaid

            return mermaid(drawing)
        case "dot":
            from noetl.language.drawing.dot import dot

            return dot(drawing)
        case "svg":
            from noetl.language.drawing.svg import svg

            return svg(drawing)
        case _:
            from noetl.language.drawing.text_tree import ladder

            return ladder(drawing)
