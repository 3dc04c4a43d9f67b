"""The guard of a route: gives the identity the gate has found, and refuses if the gate was not passed for this route.

It is a dependency of every route, so that a route the router chose is the one whose rule was read.
"""

from __future__ import annotations

from fastapi import Request

from noetl.operations.identity import Caller
from noetl.server.access.gate import PASSED, Passed
from noetl.server.problem_details import ProblemDetails


async def guard(request: Request) -> Caller:
    return passed(request).caller.identity


def passed(request: Request) -> Passed:
    """What the gate found. Problem 403 when it did not see this request, or meant another route."""
    found = request.scope.get(PASSED)
    if not isinstance(found, Passed) or found.door.endpoint is not request.scope.get("endpoint"):
        raise ProblemDetails(403, "no role may send this request")
    return found
