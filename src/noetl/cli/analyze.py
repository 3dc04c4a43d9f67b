"""`noetl analyze`: what can be proved about a playbook's net, with witnesses (ADV-06, CLI-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.checked_file import checked_file
from noetl.cli.terminal import color_option, visible

if TYPE_CHECKING:
    from noetl.language.checking import Checked
    from noetl.language.proving.certificate import Certificate
    from noetl.net.net import Net

UNSOUND = 1

_COLORS = {"sound": "green", "unsound": "red", "not decided": "yellow"}


@click.command("analyze")
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["text", "json", "dot"]), default="text", help="Form of the answer.")
@click.option(
    "--dialect", type=click.Choice(["v10", "v10-io", "v2-eval", "v2-case"]), help="Read the file as this dialect."
)
@color_option
def command(file: str, output: str, dialect: str | None) -> None:
    """Prove what can be proved about FILE (or - for standard input): deadlocks, joins, ends, cycles, values.

    Exits with 1 when the workflow is unsound.
    """
    checked, net = checked_file(file, dialect=dialect, proofs=True)
    certificate = checked.certificate
    assert certificate is not None  # check makes one for every net
    click.echo(_written(checked, net, certificate, output), nl=False)
    if certificate.verdict == "unsound":
        raise click.exceptions.Exit(UNSOUND)


def _written(checked: Checked, net: Net, certificate: Certificate, output: str) -> str:
    match output:
        case "json":
            return _as_json(certificate)
        case "dot":
            from noetl.language.proving.dot import dot

            return dot(net, certificate)
        case _:
            return _as_text(checked, certificate)


def _as_json(certificate: Certificate) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(certificate), indent=2).decode() + "\n"


def _as_text(checked: Checked, certificate: Certificate) -> str:
    """The verdict, the size of the net, why its cycles end, then the findings as `check` prints them."""
    verdict = click.style(certificate.verdict, fg=_COLORS[certificate.verdict], bold=True)
    lines = [f"{visible(checked.source.name)}: {verdict}", f"  {_size(certificate)}", f"  net {certificate.hash[:16]}"]
    if certificate.reasons:
        lines += ["", "why its cycles end:"]
        lines += [f"  {' -> '.join(_around(reason.cycle))}: {reason.why}" for reason in certificate.reasons]
    if certificate.findings:
        lines += ["", *_findings(checked, certificate)]
    return "\n".join(lines) + "\n"


def _around(cycle: tuple[str, ...]) -> list[str]:
    """A cycle's names, long ones cut in the middle, back to the first."""
    names = [*cycle[:3], "…", cycle[-1]] if len(cycle) > 5 else list(cycle)
    return [visible(name) for name in (*names, cycle[0])]


def _findings(checked: Checked, certificate: Certificate) -> list[str]:
    import msgspec

    from noetl.cli.report import text_report

    found = msgspec.structs.replace(checked, diagnostics=certificate.findings)
    return text_report([found], paint=click.style)


def _size(certificate: Certificate) -> str:
    size = certificate.statistics
    counts = [(size.steps, "step"), (size.arcs, "arc"), (size.forks, "fork"), (size.joins, "join")]
    told = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    work = f"{size.combinations} combinations of outcomes"
    return f"{told}; {work}, {size.markings} markings" if size.markings else f"{told}; {work}"
