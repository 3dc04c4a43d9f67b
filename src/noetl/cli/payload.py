"""Payload: a run's inputs from the command line: `--payload JSON|@file|@-`, then each `--set key=value` over it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from noetl.language.reading.shared_checks import is_typo, nearest

_MOST_DOUBTED = 50  # names that are looked at: a payload can have very many


def doubts(payload: Collection[str], workload: Collection[str]) -> list[str]:
    """A line for each input that was probably meant to be one of the workload's. It is taken as it is: a playbook may
    read what its workload does not hold."""
    unknown = [name for name in payload if name not in workload][:_MOST_DOUBTED]
    meant = {name: nearest(name, workload) for name in unknown if is_typo(name, workload)}
    return [f'warning: the workload has no "{name}"; did you mean "{guess}"?' for name, guess in meant.items() if guess]


def payload_from(text: str | None, settings: Iterable[str]) -> dict[str, Any]:
    """The payload they make together. click.BadParameter says what is wrong."""
    payload = _parsed(text) if text is not None else {}
    for setting in settings:
        _set(payload, setting)
    return payload


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(_read(text[1:]) if text.startswith("@") else text)
    except msgspec.DecodeError as problem:
        raise click.BadParameter(f"this is not JSON: {problem}", param_hint="--payload") from None
    if not isinstance(value, dict):
        raise click.BadParameter("a JSON object is needed, such as '{\"n\": 1}'", param_hint="--payload")
    return value


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise click.BadParameter(f"{name}: {problem.strerror}", param_hint="--payload") from None


def _set(payload: dict[str, Any], setting: str) -> None:
    """`a.b=3` sets a number, `a.b="3"` and `a.b=three` text: a value that is JSON is taken as JSON."""
    key, sign, text = setting.partition("=")
    if not sign or not all(key.split(".")):
        raise click.BadParameter(f'"{setting}" is not key=value', param_hint="--set")
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    *path, last = key.split(".")
    place = payload
    for name in path:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[last] = value
