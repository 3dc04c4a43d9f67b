"""Inputs that every start of a playbook has to bring: `executor.spec.required_inputs`."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import InvalidError
from noetl.events.outcomes import Error
from noetl.net.net import Net

_KIND = "execution.input"


def input_refusal(net: Net, payload: dict[str, Any]) -> Error | None:
    """Why a start with this payload cannot begin; None if it can. Null is no value: it is what a missing one reads
    as."""
    names = [name for name in net.required_inputs if payload.get(name, net.workload.get(name)) is None]
    if not names:
        return None
    listed = ", ".join(f'"{name}"' for name in names)
    what = f"the input {listed}" if len(names) == 1 else f"the inputs {listed}"
    return Error(kind=_KIND, message=f'"{net.path}" needs {what}, which this start does not bring')


def check_required_inputs(net: Net, payload: dict[str, Any]) -> None:
    """InvalidError where a start with this payload cannot begin, for whoever waits for an answer to it."""
    refusal = input_refusal(net, payload)
    if refusal is not None:
        raise InvalidError(refusal.message)
