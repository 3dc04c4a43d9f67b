"""`noetl compile`, `analyze` and `graph`: the net of a playbook, what is proved of it, and its picture (ADV-06, CLI-04,
SUGAR-06). `noetl schema` is the JSON Schema that playbooks are written by (DOC-13).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.connection import ask, place_options
from noetl.cli.files import read_source
from noetl.cli.live_text import lasted
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noetl.language.checking import Checked
    from noetl.language.drawing.drawing import Drawing
    from noetl.language.proving.certificate import Certificate
    from noetl.net.debug import DebugMap
    from noetl.net.net import Net


INVALID = 3  # design.md §6


def checked_file(name: str, *, dialect: str | None = None, proofs: bool = False) -> tuple[Checked, Net]:
    """Check the file and give its net; with errors, print them and leave with INVALID."""
    from noetl.cli.report import print_diagnostics
    from noetl.language.checking import check
    from noetl.language.reading.playbook import Dialect
    from noetl.tools.kinds import load_kinds

    source = read_source(name)
    checked = check(source, kinds=load_kinds(), proofs=proofs, dialect=Dialect(dialect) if dialect else None)
    if checked.net is None:
        print_diagnostics(checked)
        raise click.exceptions.Exit(INVALID)
    return checked, checked.net


@click.command("compile")
@click.argument("file")
@click.option("--debug-map", is_flag=True, help="Add where each compiled element was written.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@color_option
def compile_command(file: str, debug_map: bool, output: str, dialect: str | None) -> None:
    """Show the net that FILE (or - for standard input) compiles to."""
    checked, net = checked_file(file, dialect=dialect)
    debug = checked.debug if debug_map else None
    click.echo(_as_json(net, debug) if output == "json" else _as_text(net, debug))


def _as_json(net: Net, debug: DebugMap | None) -> str:
    from noetl.net.net import content_hash, to_json

    compiled: dict[str, Any] = {"dialect": net.dialect, "hash": content_hash(net), "net": json.loads(to_json(net))}
    if debug is not None:
        compiled["debug_map"] = {
            address: {
                "path": origin.path,
                "line": origin.span.line,
                "column": origin.span.column,
                "construct": origin.construct,
            }
            for address, origin in debug.items()
        }
    return json.dumps(compiled, indent=2, ensure_ascii=False)


def _as_text(net: Net, debug: DebugMap | None) -> str:
    from noetl.net.dump import dump

    text = dump(net).rstrip("\n")
    if debug is None:
        return text
    return f"{text}\n\ndebug map:\n{_table(debug)}"


def _table(debug: DebugMap) -> str:
    longest = max((len(address) for address in debug), default=0)
    return "\n".join(
        f"  {address.ljust(longest)}  {origin.span.line}:{origin.span.column}  {origin.path}"
        + (f"  ({origin.construct})" if origin.construct else "")
        for address, origin in debug.items()
    )


UNSOUND = 1

_COLORS = {"sound": "green", "unsound": "red", "not decided": "yellow"}


@click.command("analyze")
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["text", "json", "dot"]), default="text", help="Output format.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@color_option
def analyze_command(file: str, output: str, dialect: str | None) -> None:
    """Prove what can be proved about FILE (or - for standard input): deadlocks, joins, ends, cycles, values.

    Exits with 1 when the workflow is unsound.
    """
    checked, net = checked_file(file, dialect=dialect, proofs=True)
    certificate = checked.certificate
    # `check` with proofs makes a certificate for every net.
    assert certificate is not None
    click.echo(_certificate_as(checked, net, certificate, output), nl=False)
    if certificate.verdict == "unsound":
        raise click.exceptions.Exit(UNSOUND)


def _certificate_as(checked: Checked, net: Net, certificate: Certificate, output: str) -> str:
    match output:
        case "json":
            return _certificate_json(certificate)
        case "dot":
            from noetl.language.drawing.text_forms import findings_dot

            return findings_dot(net, certificate)
        case _:
            return _certificate_text(checked, certificate)


def _certificate_json(certificate: Certificate) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(certificate), indent=2).decode() + "\n"


def _certificate_text(checked: Checked, certificate: Certificate) -> str:
    """The verdict, the size of the net, why its cycles end, then the findings as `check` prints them."""
    verdict = click.style(certificate.verdict, fg=_COLORS[certificate.verdict], bold=True)
    lines = [f"{visible(checked.source.name)}: {verdict}", f"  {_size(certificate)}", f"  net {certificate.hash[:16]}"]
    if certificate.reasons:
        lines += ["", "why its cycles end:"]
        lines += [f"  {' -> '.join(_cycle_names(reason.cycle))}: {reason.why}" for reason in certificate.reasons]
    if certificate.findings:
        lines += ["", *_findings(checked, certificate)]
    return "\n".join(lines) + "\n"


def _cycle_names(cycle: tuple[str, ...]) -> list[str]:
    """A cycle's names, long ones cut in the middle, back to the first."""
    names = [*cycle[:3], "…", cycle[-1]] if len(cycle) > 5 else list(cycle)
    return [visible(name) for name in (*names, cycle[0])]


def _findings(checked: Checked, certificate: Certificate) -> list[str]:
    import msgspec

    from noetl.cli.report import text_report

    report = msgspec.structs.replace(checked, diagnostics=certificate.findings)
    return text_report([report], paint=click.style)


def _size(certificate: Certificate) -> str:
    size = certificate.statistics
    counts = [(size.steps, "step"), (size.arcs, "arc"), (size.forks, "fork"), (size.joins, "join")]
    parts = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    work = f"{size.combinations} combinations of outcomes"
    return f"{parts}; {work}, {size.markings} markings" if size.markings else f"{parts}; {work}"


@click.command("graph")
@click.argument("file")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "mermaid", "dot", "svg"]),
    default="text",
    help="Drawing format.",
)
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@click.option("--cost", is_flag=True, help="Add the duration of each step in recent executions, and the critical path.")
@place_options
@color_option
def graph_command(file: str, output: str, dialect: str | None, cost: bool, db: str | None) -> None:
    """Draw the net of FILE (or - for standard input): steps, their tasks, and the ways between them."""
    from noetl.language.drawing.drawing import draw

    if cost and output != "text":
        raise click.UsageError("--cost adds lines of text: leave out -o")
    checked, net = checked_file(file, dialect=dialect)
    click.echo(_drawing_as(draw(net), output), nl=False)
    if cost:
        found = ask(db, lambda operations: operations.cost(checked.source.text, path=net.path))
        click.echo("\n" + "\n".join(_cost_lines(found)))


def _cost_lines(cost: dict[str, Any]) -> Iterator[str]:
    """The steps of the critical path in its order, then the others, the slowest first."""
    if cost["total_s"] is None:
        yield f"no execution of {visible(cost['path'])} has ended yet, so its durations are not known"
        return
    number = cost["executions"]
    yield f"critical path {lasted(cost['total_s'])}, medians of {number} execution{'' if number == 1 else 's'}"
    head = ("STEP", "MEDIAN", "P95", "RUNS", "SHARE")
    rows = [head] + [
        (
            visible(step["step"]),
            "no history" if step["median_s"] is None else lasted(step["median_s"]),
            "-" if step["p95_s"] is None else lasted(step["p95_s"]),
            str(step["runs"]),
            f"{round(100 * (step['share'] or 0))} %" if step["is_critical"] else "not on the path",
        )
        for step in cost["steps"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _drawing_as(drawing: Drawing, output: str) -> str:
    match output:
        case "mermaid":
            from noetl.language.drawing.text_forms import mermaid

            return mermaid(drawing)
        case "dot":
            from noetl.language.drawing.text_forms import dot

            return dot(drawing)
        case "svg":
            from noetl.language.drawing.svg import svg

            return svg(drawing)
        case _:
            from noetl.language.drawing.text_forms import ladder

            return ladder(drawing)


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema (draft 2020-12) of playbooks in v10, the canonical dialect.

    Save it, and name it in the first line of a playbook for completion and checks while you type:

    \b
    # yaml-language-server: $schema=./noetl.schema.json
    """
    import json

    from noetl.language.grammar.root import playbook_schema
    from noetl.tools.kinds import load_kinds

    click.echo(json.dumps(playbook_schema(load_kinds()), indent=2, ensure_ascii=False))
