"""Labels on the command line: KEY=VALUE, several times."""

from __future__ import annotations

from collections.abc import Sequence

import click


def labels_in(given: Sequence[str]) -> dict[str, str]:
    labels = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.BadParameter(f'"{text}" is not key=value')
        labels[key] = value
    return labels
