"""Values on the command line: payloads and data as JSON, from a file, from standard input, or as key=value."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.base.diagnostics import nearest_word
from noetl.language.reading.shared_checks import is_typo

if TYPE_CHECKING:
    from noetl.operations.attempt_shapes import StepTestInputs

# Unknown names that are checked for typos; a payload can have very many.
_MOST_DOUBTED = 50


def doubts(payload: Collection[str], workload: Collection[str]) -> list[str]:
    """A warning for each input that is probably a misspelt name of the workload. The input is still passed on: a
    playbook may read names that its workload does not have."""
    unknown = [name for name in payload if name not in workload][:_MOST_DOUBTED]
    guesses = {name: nearest_word(name, workload) for name in unknown if is_typo(name, workload)}
    return [
        f'warning: the workload has no "{name}"; did you mean "{guess}"?' for name, guess in guesses.items() if guess
    ]


def payload_from(text: str | None, settings: Iterable[str]) -> dict[str, Any]:
    """The inputs of a run: `--payload`, then each `--set` over it. `a.b=3` reaches into the payload."""
    payload = object_from(text, "--payload")
    for setting in settings:
        key, value = _pair(setting, "--set")
        *path, last = key.split(".")
        if not all((*path, last)):
            raise click.BadParameter(f'"{setting}" is not key=value', param_hint="--set")
        place = payload
        for name in path:
            # `--set a.b=3` over `a: 1`: the later value wins, as for plain keys.
            if not isinstance(place.get(name), dict):
                place[name] = {}
            place = place[name]
        place[last] = value
    return payload


def step_test_inputs(text: str | None, workload: dict[str, Any]) -> StepTestInputs:
    """The inputs of a step test: `--step-inputs`, and the inputs of the run as its workload."""
    from noetl.operations.attempt_shapes import StepTestInputs

    inputs = object_from(text, "--step-inputs")
    try:
        return msgspec.convert({**inputs, "workload": workload}, StepTestInputs)
    except msgspec.ValidationError as problem:
        allowed = "it has args, ctx and results, each an object"
        raise click.BadParameter(f"{problem}; {allowed}", param_hint="--step-inputs") from None


def value_from(text: str | None, option: str) -> Any:
    """`JSON`, `@file` or `@-`; None for nothing. click.BadParameter says what is wrong."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(_read(text[1:], option) if text.startswith("@") else text)
    except msgspec.DecodeError as problem:
        raise click.BadParameter(f"this is not JSON: {problem}", param_hint=option) from None


def object_from(text: str | None, option: str) -> dict[str, Any]:
    value = value_from(text, option) if text is not None else {}
    if not isinstance(value, dict):
        raise click.BadParameter("a JSON object is needed, such as '{\"n\": 1}'", param_hint=option)
    return value


def pairs_from(pairs: Iterable[str], option: str) -> dict[str, Any]:
    return dict(_pair(pair, option) for pair in pairs)


def labels_from(pairs: Iterable[str]) -> dict[str, str]:
    """Labels are text, so `zone=1` stays "1"."""
    return dict(_split(pair, None) for pair in pairs)


def _pair(pair: str, option: str) -> tuple[str, Any]:
    """`n=3` is a number, `n="3"` and `n=three` are text: valid JSON is read as JSON."""
    key, text = _split(pair, option)
    try:
        return key, msgspec.json.decode(text)
    except msgspec.DecodeError:
        return key, text


def _split(pair: str, option: str | None) -> tuple[str, str]:
    key, sign, text = pair.partition("=")
    if not sign or not key:
        raise click.BadParameter(f'"{pair}" is not key=value', param_hint=option)
    return key, text


def _read(name: str, option: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise click.BadParameter(f"{name}: {problem.strerror}", param_hint=option) from None
