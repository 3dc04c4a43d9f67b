"""Schemas of results: an outcome whose payload is not what its schema says is an error its policy can see (RES-07).

`spec.result_schema` names the schema of what a task gives. A reference whose `schema_hint` names one is held to it when
an artifact is read. What `artifact` puts is checked on its way in, and the reference it gives carries the name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from noetl.engine.pipeline.preparation import Prepared
from noetl.engine.pipeline.result_schemas import misfit
from noetl.events.outcomes import Error, Outcome, Status

MISFIT = "result.schema"
_ARTIFACT = "artifact"

SchemaOf = Callable[[str], Awaitable[Any]]


async def conforming(kind: str, prepared: Prepared, outcome: Outcome, schema_of: SchemaOf) -> Outcome:
    """The outcome as it is, or the error `result.schema`. `schema_of` gives nothing for a name nobody registered."""
    if not outcome.ok:
        return outcome
    named = prepared.spec.get("result_schema")
    if not named and not (kind == _ARTIFACT and (named := _hint(prepared.inputs))):
        return outcome
    schema = await schema_of(str(named))
    if schema is None:
        if not prepared.spec.get("result_schema"):
            return outcome  # a hint is free text, and need not name a schema
        return _failed(outcome, f'no schema "{named}" is registered here: PUT /api/schemas/{named}')
    is_put = kind == _ARTIFACT and prepared.inputs.get("op", "put") == "put" and "data" in prepared.inputs
    value = prepared.inputs.get("data") if is_put else _payload(outcome)
    if problem := misfit(schema, value):
        return _failed(outcome, f'{problem} (schema "{named}")')
    if is_put and isinstance(outcome.result, dict):
        return msgspec.structs.replace(outcome, result={**outcome.result, "schema_hint": str(named)})
    return outcome


def _failed(outcome: Outcome, message: str) -> Outcome:
    error = Error(kind=MISFIT, message=message)
    return msgspec.structs.replace(outcome, status=Status.ERROR, result=None, wrapped=False, error=error)


def _payload(outcome: Outcome) -> Any:
    return outcome.result.get("data") if outcome.wrapped and isinstance(outcome.result, dict) else outcome.result


def _hint(inputs: Mapping[str, Any]) -> str | None:
    reference = inputs.get("ref")
    hint = reference.get("schema_hint") if isinstance(reference, Mapping) else None
    return hint if isinstance(hint, str) else None
